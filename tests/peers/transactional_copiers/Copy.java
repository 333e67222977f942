import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;

/** A transactional copier, to be killed: what tests/peers/transactional_copiers/python.py is in Python. */
public final class Copy {
    private static final String PACKAGE = "org.apache.kafka.common.serialization.String";
    private static final Duration CALL = Duration.ofSeconds(20); // longer than a server is away
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String source;
    private final String target;
    private final JsonNode how;
    private final KafkaProducer<String, String> producer;
    private final KafkaConsumer<String, String> consumer;
    private int number = 0;

    private Copy(String bootstrap, String source, String target, String group, String transactionalId, JsonNode how) {
        this.source = source;
        this.target = target;
        this.how = how;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("reconnect.backoff.max.ms", 200);
        settings.put("key.serializer", PACKAGE + "Serializer");
        settings.put("value.serializer", PACKAGE + "Serializer");
        settings.put("transactional.id", transactionalId);
        settings.put("transaction.timeout.ms", 30_000);
        settings.put("linger.ms", 0);
        settings.put("max.block.ms", CALL.toMillis());
        producer = new KafkaProducer<>(settings);
        producer.initTransactions();
        settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("reconnect.backoff.max.ms", 200);
        settings.put("key.deserializer", PACKAGE + "Deserializer");
        settings.put("value.deserializer", PACKAGE + "Deserializer");
        settings.put("group.id", group);
        settings.put("session.timeout.ms", 1_500);
        settings.put("heartbeat.interval.ms", 200);
        settings.put("max.poll.interval.ms", 3_000);
        settings.put("max.poll.records", how.get("rows").asInt());
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("isolation.level", "read_committed");
        consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(source));
    }

    public static void main(String[] arguments) {
        try {
            Copy copy = new Copy(
                    arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], JSON.readTree(arguments[5]));
            tell(Map.of("ready", true));
            while (true) {
                copy.once();
            }
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            tell(Map.of("fenced", String.valueOf(fenced)));
        } catch (Exception error) {
            tell(Map.of("failed", String.valueOf(error)));
        }
        Runtime.getRuntime().halt(1);
    }

    private void once() throws Exception {
        List<ProducerRecord<String, String>> rows = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        for (ConsumerRecord<String, String> read : consumer.poll(Duration.ofMillis(100))) {
            rows.add(new ProducerRecord<>(target, read.partition(), read.key(), read.value()));
            ends.put(new TopicPartition(source, read.partition()), new OffsetAndMetadata(read.offset() + 1));
        }
        if (rows.isEmpty()) {
            return;
        }
        number++;
        try {
            producer.beginTransaction();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (ProducerRecord<String, String> row : rows) {
                sent.add(producer.send(row));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
            hold("offsets");
            producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
            hold("commit");
            if (how.get("abort_every").asInt() > 0 && number % how.get("abort_every").asInt() == 0) {
                abort("asked for");
                return;
            }
            commit();
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            throw fenced;
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof ProducerFencedException
                    || failed.getCause() instanceof InvalidProducerEpochException) {
                throw (KafkaException) failed.getCause();
            }
            abort(String.valueOf(failed.getCause()));
            return;
        } catch (KafkaException failed) {
            abort(String.valueOf(failed)); // which fails where the producer has
            return;
        }
        tell(Map.of("committed", number, "rows", rows.size()));
    }

    /** Where it takes too long, the same call asks again what came of it. */
    private void commit() {
        long giveUpMs = System.currentTimeMillis() + CALL.toMillis();
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException late) {
                if (System.currentTimeMillis() > giveUpMs) {
                    throw new IllegalStateException(late);
                }
            }
        }
    }

    private void abort(String why) {
        producer.abortTransaction();
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment(), CALL);
        for (TopicPartition place : consumer.assignment()) {
            OffsetAndMetadata found = committed.get(place);
            consumer.seek(place, found == null ? 0 : found.offset());
        }
        tell(Map.of("aborted", number, "why", why));
    }

    private void hold(String before) throws Exception {
        if (number == how.get("hold_at").asInt() && before.equals(how.get("hold_before").asText())) {
            tell(Map.of("held", number));
            System.in.read();
        }
    }

    private static void tell(Map<String, Object> what) {
        try {
            System.out.println(JSON.writeValueAsString(what));
        } catch (Exception impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
