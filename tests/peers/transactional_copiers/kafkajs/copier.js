// A transactional copier, to be killed: what tests/peers/transactional_copiers/python.py is in Python.
//
// Its batches are of one partition each, and so are its transactions. The rows of an aborted one are still at hand.
const { Kafka, logLevel } = require("kafkajs");
const fs = require("fs");

const [bootstrap, source, target, groupId, transactionalId, how] = process.argv.slice(2);
const { rows: rowsMax, abort_every: abortEvery, hold_at: holdAt, hold_before: holdBefore } = JSON.parse(how);
const tell = (what) => fs.writeSync(1, JSON.stringify(what) + "\n");
const FENCED = ["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"];
const TRANSACTION_TIMEOUT_MS = 30000;

const end = (error) => {
  const why = `${error.name}: ${error.message}`;
  tell(FENCED.includes((error.cause ?? error).type) || FENCED.includes(error.type) ? { fenced: why } : { failed: why });
  process.exit(1);
};

const kafka = new Kafka({
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 50 },
});
const producer = kafka.producer({
  transactionalId,
  transactionTimeout: TRANSACTION_TIMEOUT_MS,
  idempotent: true,
  maxInFlightRequests: 1,
});
const consumer = kafka.consumer({ groupId, sessionTimeout: 1500, heartbeatInterval: 200, maxWaitTimeInMs: 100 });
consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || end(payload.error));

let number = 0;
const hold = (before) => {
  if (number !== holdAt || before !== holdBefore) return;
  tell({ held: number });
  fs.readSync(0, Buffer.alloc(1)); // nothing else goes on meanwhile, as in a process that is stopped
};

// Whether the rows are copied now.
const copy = async (partition, messages) => {
  number += 1;
  const transaction = await producer.transaction();
  await transaction.send({
    topic: target,
    acks: -1,
    messages: messages.map(({ key, value }) => ({ partition, key, value })),
  });
  hold("offsets");
  const offset = String(Number(messages.at(-1).offset) + 1);
  await transaction.sendOffsets({
    consumerGroupId: groupId,
    topics: [{ topic: source, partitions: [{ partition, offset }] }],
  });
  hold("commit");
  if (abortEvery && number % abortEvery === 0) {
    await transaction.abort();
    tell({ aborted: number, why: "asked for" });
    return false;
  }
  await transaction.commit();
  tell({ committed: number, rows: messages.length });
  return true;
};

(async () => {
  await producer.connect(); // it takes the transactional id by then
  tell({ ready: true });
  await consumer.connect();
  await consumer.subscribe({ topics: [source], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
      const rows = batch.messages;
      for (let at = 0; at < rows.length && isRunning() && !isStale(); ) {
        const some = rows.slice(at, at + rowsMax);
        // A transaction that failed has no way back in this client: whoever comes next begins with what is committed.
        if (await copy(batch.partition, some).catch(end)) {
          resolveOffset(some.at(-1).offset);
          at += some.length;
        }
        await heartbeat();
      }
    },
  });
})().catch(end);
