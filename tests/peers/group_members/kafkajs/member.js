// A member of a consumer group, to be killed: what tests/peers/group_members/python.py is in Python.
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, topic, groupId, how] = process.argv.slice(2);
const sessionTimeout = JSON.parse(how).session_ms;
const print = (what) => process.stdout.write(JSON.stringify(what) + "\n");

const kafka = new Kafka({
  brokers: [bootstrap],
  logLevel: logLevel.ERROR,
  retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 50 },
});
const consumer = kafka.consumer({ groupId, sessionTimeout, heartbeatInterval: 200, maxWaitTimeInMs: 100 });
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  print({ assigned: payload.memberAssignment[topic] ?? [] });
});

(async () => {
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    eachBatchAutoResolve: true,
    eachBatch: async ({ batch }) => {
      for (const { offset } of batch.messages) print({ read: [batch.partition, Number(offset)] });
    },
  });
})();
