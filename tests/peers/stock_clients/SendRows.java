import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Kafka's Java producer, driven line by line: its settings at their defaults, but every row is a batch of its own.
 *
 * <pre>
 * version                       -> the version of Kafka's clients
 * open TOPIC BOOTSTRAP          -> opened
 * send TOPIC ROW ...            -> for each row "stored OFFSET" or "failed EXCEPTION", with tabs between
 * close TOPIC                   -> closed
 * </pre>
 */
public final class SendRows {
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ")));
        }
    }

    private static String answer(String[] words) throws InterruptedException {
        switch (words[0]) {
            case "version":
                return AppInfoParser.getVersion();
            case "open":
                PRODUCERS.put(words[1], producer(words[1], words[2]));
                return "opened";
            case "send":
                return send(PRODUCERS.get(words[1]), words[1], Arrays.asList(words).subList(2, words.length));
            case "close":
                PRODUCERS.remove(words[1]).close(Duration.ofSeconds(5));
                return "closed";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String send(KafkaProducer<String, String> producer, String topic, List<String> rows)
            throws InterruptedException {
        List<Object> sent = new ArrayList<>();
        for (String row : rows) {
            try {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, null, row)));
            } catch (RuntimeException refused) {
                sent.add(refused);
            }
        }
        List<String> told = new ArrayList<>();
        for (Object each : sent) {
            try {
                if (each instanceof RuntimeException) {
                    throw (RuntimeException) each;
                }
                told.add("stored " + ((RecordMetadata) ((Future<?>) each).get()).offset());
            } catch (ExecutionException failed) {
                told.add("failed " + failed.getCause().getClass().getSimpleName());
            } catch (RuntimeException refused) {
                told.add("failed " + refused.getClass().getSimpleName());
            }
        }
        return told.stream().collect(Collectors.joining("\t"));
    }

    private static KafkaProducer<String, String> producer(String clientId, String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId);
        settings.put("batch.size", "0");
        String serializer = "org.apache.kafka.common.serialization.StringSerializer";
        settings.put("key.serializer", serializer);
        settings.put("value.serializer", serializer);
        return new KafkaProducer<>(settings);
    }
}
