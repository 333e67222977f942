import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Kafka's Java producer as a worker of the benchmark, beside bench/send_table.py: the same values and keys, built
 * beforehand; acks=all and idempotent, its other settings at their defaults but for batch.size. Answers each JSON line
 * {"topic", "rows", "keyed", "batch_bytes"} with the seconds until all rows were acknowledged.
 *
 * <pre>java -cp 'kafka-clients.jar:slf4j.jar' SendRecords.java BOOTSTRAP</pre>
 */
public final class SendRecords {
    private static final int VALUE_BYTES = 100;
    private static final int VALUES = 1024;
    private static final int KEYS = 500_000;

    public static void main(String[] arguments) throws Exception {
        byte[][] values = new byte[VALUES][];
        for (int number = 0; number < VALUES; number++) {
            values[number] = (number + "-").repeat(VALUE_BYTES).substring(0, VALUE_BYTES).getBytes(StandardCharsets.US_ASCII);
        }
        byte[][] keys = new byte[KEYS][];
        for (int number = 0; number < KEYS; number++) {
            keys[number] = String.format("%08d", number).getBytes(StandardCharsets.US_ASCII);
        }
        Map<Integer, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
        BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String job = jobs.readLine(); job != null; job = jobs.readLine()) {
            String topic = field(job, "topic");
            long rows = Long.parseLong(field(job, "rows"));
            boolean keyed = Boolean.parseBoolean(field(job, "keyed"));
            int batchBytes = Integer.parseInt(field(job, "batch_bytes"));
            KafkaProducer<byte[], byte[]> producer =
                producers.computeIfAbsent(batchBytes, size -> producer(arguments[0], size));
            producer.partitionsFor(topic);
            AtomicReference<Exception> failure = new AtomicReference<>();
            long started = System.nanoTime();
            for (long row = 0; row < rows; row++) {
                byte[] key = keyed ? keys[(int) (row % KEYS)] : null;
                producer.send(new ProducerRecord<>(topic, key, values[(int) (row % VALUES)]), (metadata, error) -> {
                    if (error != null) {
                        failure.set(error);
                    }
                });
            }
            producer.flush();
            double seconds = (System.nanoTime() - started) / 1e9;
            if (failure.get() != null) {
                throw failure.get();
            }
            System.out.println(seconds);
        }
        producers.values().forEach(KafkaProducer::close);
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, int batchBytes) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true");
        if (batchBytes > 0) {
            settings.put("batch.size", Integer.toString(batchBytes));
        }
        String serializer = "org.apache.kafka.common.serialization.ByteArraySerializer";
        settings.put("key.serializer", serializer);
        settings.put("value.serializer", serializer);
        return new KafkaProducer<>(settings);
    }

    private static String field(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": *\"?([^\",}]*)").matcher(json);
        if (!found.find()) {
            throw new IllegalArgumentException("no " + name + " in " + json);
        }
        return found.group(1).trim();
    }
}
