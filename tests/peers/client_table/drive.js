// Drives kafkajs by lines of JSON: what tests/peers/client_table/python_driver.py is in Python.
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");
const { version } = require("kafkajs/package.json");
const readline = require("readline");

const TIMEOUT_MS = 20000;
const kafka = new Kafka({
  brokers: [process.argv[2]],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, retries: 5 },
});
let open; // a transaction
const text = (data) => (data === null || data === undefined ? null : data.toString());

const withAdmin = async (use) => {
  const admin = kafka.admin();
  await admin.connect();
  try {
    return await use(admin);
  } finally {
    await admin.disconnect();
  }
};

const CODECS = { none: "None", gzip: "GZIP", snappy: "Snappy", lz4: "LZ4", zstd: "ZSTD" };
const TOPIC = 2; // the kind of resource whose settings are asked for

const CALLS = {
  version: async () => version,

  produce: async ({ topic, rows, idempotent, codec }) => {
    const producer = kafka.producer({ idempotent });
    await producer.connect();
    try {
      const messages = rows.map((row) => ({
        partition: 0,
        value: row.value,
        key: row.key,
        headers: row.headers && Object.fromEntries(row.headers),
        timestamp: row.timestamp_ms && String(row.timestamp_ms),
      }));
      const compression = CompressionTypes[CODECS[codec]];
      const [{ baseOffset }] = await producer.send({ topic, messages, acks: -1, compression });
      return rows.map((_, number) => Number(baseOffset) + number);
    } finally {
      await producer.disconnect();
    }
  },

  begin_transaction: async ({ topic, rows, transactional_id, timeout_ms }) => {
    const producer = kafka.producer({
      transactionalId: transactional_id,
      transactionTimeout: timeout_ms,
      idempotent: true,
      maxInFlightRequests: 1,
    });
    await producer.connect();
    const transaction = await producer.transaction();
    await transaction.send({ topic, acks: -1, messages: rows.map(({ value }) => ({ partition: 0, value })) });
    open = { producer, transaction };
  },

  end_transaction: async ({ commit }) => {
    try {
      await (commit ? open.transaction.commit() : open.transaction.abort());
    } finally {
      await open.producer.disconnect();
    }
  },

  consume: async ({ topic, count, committed }) => {
    const groupId = `reader-of-${topic}`;
    const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100, readUncommitted: !committed });
    await consumer.connect();
    try {
      await consumer.subscribe({ topics: [topic], fromBeginning: true });
      return await new Promise((resolve, reject) => {
        const rows = [];
        consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
        setTimeout(() => resolve(rows), TIMEOUT_MS).unref();
        consumer
          .run({
            autoCommit: false,
            eachMessage: async ({ message }) => {
              rows.push({
                offset: Number(message.offset),
                value: text(message.value),
                key: text(message.key),
                headers: Object.entries(message.headers ?? {}).map(([name, value]) => [name, text(value)]),
                timestamp_ms: Number(message.timestamp),
              });
              if (rows.length === count) resolve(rows);
            },
          })
          .catch(reject);
      });
    } finally {
      await consumer.disconnect();
    }
  },

  ends: ({ topic }) =>
    withAdmin(async (admin) => {
      const [{ low, high }] = await admin.fetchTopicOffsets(topic);
      return [Number(low), Number(high)];
    }),

  offset_for_time: ({ topic, timestamp_ms }) =>
    withAdmin(async (admin) => Number((await admin.fetchTopicOffsetsByTimestamp(topic, timestamp_ms))[0].offset)),

  list_topics: () => withAdmin((admin) => admin.listTopics()),

  create_topic: ({ topic, partitions, settings }) =>
    withAdmin(async (admin) => {
      const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }));
      await admin.createTopics({ topics: [{ topic, numPartitions: partitions, configEntries }] });
    }),

  delete_topic: ({ topic }) => withAdmin((admin) => admin.deleteTopics({ topics: [topic] })),

  add_partitions: ({ topic, partitions }) =>
    withAdmin(async (admin) => {
      await admin.createPartitions({ topicPartitions: [{ topic, count: partitions }] });
    }),

  topic_setting: ({ topic, name }) =>
    withAdmin(async (admin) => {
      const asked = { includeSynonyms: false, resources: [{ type: TOPIC, name: topic }] };
      const { resources } = await admin.describeConfigs(asked);
      return resources[0].configEntries.find((entry) => entry.configName === name).configValue;
    }),

  set_topic_setting: ({ topic, name, value }) =>
    withAdmin(async (admin) => {
      const resources = [{ type: TOPIC, name: topic, configEntries: [{ name, value }] }];
      await admin.alterConfigs({ validateOnly: false, resources });
    }),

  delete_records: ({ topic, before }) =>
    withAdmin(async (admin) => {
      await admin.fetchTopicOffsets(topic); // it deletes only from a topic whose leaders it has asked for
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(before) }] });
    }),

  list_groups: () => withAdmin(async (admin) => (await admin.listGroups()).groups.map((group) => group.groupId)),

  describe_group: ({ group }) =>
    withAdmin(async (admin) => {
      const { AssignerProtocol } = require("kafkajs");
      const [{ state, members }] = (await admin.describeGroups([group])).groups;
      const partitions = members.map(({ memberAssignment }) =>
        Object.values(AssignerProtocol.MemberAssignment.decode(memberAssignment).assignment).flat().length,
      );
      return { state, partitions };
    }),

  group_offsets: ({ group, topic }) =>
    withAdmin(async (admin) => {
      const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
      return Object.fromEntries(partitions.map(({ partition, offset }) => [partition, Number(offset)]));
    }),

  set_group_offset: ({ group, topic, offset }) =>
    withAdmin((admin) =>
      admin.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset: String(offset) }] }),
    ),

  delete_group: ({ group }) =>
    withAdmin(async (admin) => {
      await admin.deleteGroups([group]);
    }),
};

const answer = async ({ do: what, ...given }) => {
  if (!(what in CALLS)) return { absent: true };
  try {
    return { done: (await CALLS[what](given)) ?? null };
  } catch (error) {
    return { failed: `${error.name}: ${error.message}` };
  }
};

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(JSON.stringify(await answer(JSON.parse(line))) + "\n");
  }
  process.exit(0);
})();
