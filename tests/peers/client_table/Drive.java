import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.utils.AppInfoParser;

/** Drives Kafka's Java clients by lines of JSON: what tests/peers/client_table/python_driver.py is in Python. */
public final class Drive {
    private static final Duration TIMEOUT = Duration.ofSeconds(20);
    private static final String PACKAGE = "org.apache.kafka.common.serialization.String";
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrap;
    private final Admin admin;
    private KafkaProducer<String, String> open; // with a transaction

    private Drive(String bootstrap) {
        this.bootstrap = bootstrap;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        admin = Admin.create(settings);
    }

    public static void main(String[] arguments) throws Exception {
        Drive drive = new Drive(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(drive.answer(JSON.readTree(line))));
        }
        System.exit(0);
    }

    private Map<String, Object> answer(JsonNode asked) {
        Map<String, Object> answer = new HashMap<>();
        try {
            answer.put("done", call(asked));
        } catch (NoSuchMethodException absent) {
            answer.put("absent", true);
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            answer.put("failed", cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
        return answer;
    }

    private Object call(JsonNode asked) throws Exception {
        String topic = asked.path("topic").asText();
        String group = asked.path("group").asText();
        switch (asked.get("do").asText()) {
            case "version":
                return AppInfoParser.getVersion();
            case "produce":
                return produce(topic, asked);
            case "consume":
                return consume(topic, asked.get("count").asInt(), asked.path("committed").asBoolean());
            case "begin_transaction":
                return beginTransaction(topic, asked);
            case "end_transaction":
                return endTransaction(asked.get("commit").asBoolean());
            case "ends":
                return ends(topic);
            case "offset_for_time":
                return offsetForTime(topic, asked.get("timestamp_ms").asLong());
            case "list_topics":
                return admin.listTopics().names().get();
            case "create_topic":
                return createTopic(topic, asked);
            case "delete_topic":
                return admin.deleteTopics(List.of(topic)).all().get();
            case "add_partitions":
                NewPartitions more = NewPartitions.increaseTo(asked.get("partitions").asInt());
                return admin.createPartitions(Map.of(topic, more)).all().get();
            case "topic_setting":
                return admin.describeConfigs(List.of(resource(topic))).all().get().get(resource(topic))
                        .get(asked.get("name").asText()).value();
            case "set_topic_setting":
                return setTopicSetting(topic, asked.get("name").asText(), asked.get("value").asText());
            case "delete_records":
                RecordsToDelete before = RecordsToDelete.beforeOffset(asked.get("before").asLong());
                admin.deleteRecords(Map.of(new TopicPartition(topic, 0), before)).all().get();
                return null;
            case "list_groups":
                return admin.listGroups().all().get().stream().map(GroupListing::groupId)
                        .collect(Collectors.toList());
            case "describe_group":
                return describeGroup(group);
            case "group_offsets":
                return groupOffsets(group, topic);
            case "set_group_offset":
                OffsetAndMetadata moved = new OffsetAndMetadata(asked.get("offset").asLong());
                return admin.alterConsumerGroupOffsets(group, Map.of(new TopicPartition(topic, 0), moved)).all().get();
            case "delete_group":
                return admin.deleteConsumerGroups(List.of(group)).all().get();
            default:
                throw new NoSuchMethodException();
        }
    }

    private List<Long> produce(String topic, JsonNode asked) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.idempotence", asked.get("idempotent").asBoolean());
        settings.put("compression.type", asked.get("codec").asText());
        settings.put("linger.ms", 20);
        settings.put("key.serializer", PACKAGE + "Serializer");
        settings.put("value.serializer", PACKAGE + "Serializer");
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode row : asked.get("rows")) {
                Long timestampMs = row.has("timestamp_ms") ? row.get("timestamp_ms").asLong() : null;
                String key = row.has("key") ? row.get("key").asText() : null;
                ProducerRecord<String, String> record =
                        new ProducerRecord<>(topic, 0, timestampMs, key, row.get("value").asText());
                for (JsonNode header : row.path("headers")) {
                    byte[] content = header.get(1).asText().getBytes(StandardCharsets.UTF_8);
                    record.headers().add(header.get(0).asText(), content);
                }
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> each : sent) {
                offsets.add(each.get().offset());
            }
        }
        return offsets;
    }

    private Object beginTransaction(String topic, JsonNode asked) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", asked.get("transactional_id").asText());
        settings.put("transaction.timeout.ms", asked.get("timeout_ms").asInt());
        settings.put("key.serializer", PACKAGE + "Serializer");
        settings.put("value.serializer", PACKAGE + "Serializer");
        open = new KafkaProducer<>(settings);
        open.initTransactions();
        open.beginTransaction();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode row : asked.get("rows")) {
            sent.add(open.send(new ProducerRecord<>(topic, 0, null, row.get("value").asText())));
        }
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
        return null;
    }

    private Object endTransaction(boolean commit) {
        try (KafkaProducer<String, String> producer = open) {
            if (commit) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
        return null;
    }

    private KafkaConsumer<String, String> consumer() {
        return consumer(false);
    }

    private KafkaConsumer<String, String> consumer(boolean committed) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", committed ? "read_committed" : "read_uncommitted");
        settings.put("key.deserializer", PACKAGE + "Deserializer");
        settings.put("value.deserializer", PACKAGE + "Deserializer");
        return new KafkaConsumer<>(settings);
    }

    private List<Map<String, Object>> consume(String topic, int count, boolean committed) {
        List<Map<String, Object>> rows = new ArrayList<>();
        long giveUpMs = System.currentTimeMillis() + TIMEOUT.toMillis();
        try (KafkaConsumer<String, String> consumer = consumer(committed)) {
            TopicPartition place = new TopicPartition(topic, 0);
            consumer.assign(List.of(place));
            consumer.seek(place, 0);
            while (rows.size() < count && System.currentTimeMillis() < giveUpMs) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    List<List<String>> headers = new ArrayList<>();
                    for (Header header : record.headers()) {
                        headers.add(List.of(header.key(), new String(header.value(), StandardCharsets.UTF_8)));
                    }
                    Map<String, Object> row = new HashMap<>();
                    row.put("offset", record.offset());
                    row.put("value", record.value());
                    row.put("key", record.key());
                    row.put("headers", headers);
                    row.put("timestamp_ms", record.timestamp());
                    rows.add(row);
                }
            }
        }
        return rows;
    }

    private List<Long> ends(String topic) {
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer()) {
            return List.of(
                    consumer.beginningOffsets(List.of(place)).get(place), consumer.endOffsets(List.of(place)).get(place));
        }
    }

    private long offsetForTime(String topic, long timestampMs) {
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer()) {
            return consumer.offsetsForTimes(Map.of(place, timestampMs)).get(place).offset();
        }
    }

    private Object createTopic(String topic, JsonNode asked) throws Exception {
        Map<String, String> settings = new HashMap<>();
        asked.get("settings").properties().forEach(each -> settings.put(each.getKey(), each.getValue().asText()));
        NewTopic made = new NewTopic(topic, asked.get("partitions").asInt(), (short) 1).configs(settings);
        return admin.createTopics(List.of(made)).all().get();
    }

    private static ConfigResource resource(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    private Object setTopicSetting(String topic, String name, String value) throws Exception {
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        return admin.incrementalAlterConfigs(Map.of(resource(topic), List.of(set))).all().get();
    }

    private Map<String, Object> describeGroup(String group) throws Exception {
        ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        List<Integer> partitions = found.members().stream()
                .map(member -> member.assignment().topicPartitions().size())
                .collect(Collectors.toList());
        return Map.of("state", found.groupState().name(), "partitions", partitions);
    }

    private Map<Integer, Long> groupOffsets(String group, String topic) throws Exception {
        Map<Integer, Long> offsets = new HashMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((place, committed) -> {
            if (place.topic().equals(topic)) {
                offsets.put(place.partition(), committed.offset());
            }
        });
        return offsets;
    }
}
