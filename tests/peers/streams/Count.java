import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts rows ("partition/number") by what is left of their numbers when seven is taken out, exactly once: there is a
 * repartition, a count with a changelog, and each count is written as "rest=count".
 *
 * <p>It prints {"counted": n} behind each row that it counts; a row that is counted again is told again.
 */
public final class Count {
    public static void main(String[] arguments) {
        String source = arguments[1];
        String target = arguments[2];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[3]);
        settings.put("state.dir", arguments[4]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", 100);
        settings.put("statestore.cache.max.bytes", 0); // so that each count is written, not the last ones
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("reconnect.backoff.max.ms", 200);
        settings.put("main.consumer.auto.offset.reset", "earliest");
        settings.put("main.consumer.session.timeout.ms", 1_500);
        settings.put("main.consumer.heartbeat.interval.ms", 200);
        // Who comes next has another transactional id, and waits until this one's transaction is too old.
        settings.put("producer.transaction.timeout.ms", 2_000);

        StreamsBuilder topology = new StreamsBuilder();
        AtomicLong counted = new AtomicLong();
        KStream<String, String> rows = topology.stream(source);
        rows.groupBy((key, row) -> String.valueOf(Integer.parseInt(row.substring(row.indexOf('/') + 1)) % 7))
                .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
                .toStream()
                .peek((rest, count) -> System.out.println("{\"counted\": " + counted.incrementAndGet() + "}"))
                .mapValues((rest, count) -> rest + "=" + count)
                .to(target, Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(topology.build(), settings);
        // As the server goes: whoever counts begins again.
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println(error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
    }
}
