// Apache Kafka's own record code, from the command line: `java -cp 'jars/*' GoldenBatches.java make|read`.
//
//   make   rows on stdin -> "name hex" lines: one batch a codec as KafkaProducer builds it, markers, hashes
//   read   "hex" lines on stdin -> for each batch its rows, then an empty line; every CRC is checked
//
// A row: timestamp, key, value, headers (name:value,...), separated by spaces; bytes in hex, null as "-".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Utils;

public class GoldenBatches {
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        List<String> lines = new BufferedReader(new InputStreamReader(System.in)).lines().toList();
        if (arguments[0].equals("make")) make(lines); else read(lines);
    }

    static void make(List<String> lines) {
        List<SimpleRecord> rows = new ArrayList<>();
        for (String line : lines) rows.add(row(line));
        for (CompressionType type : CompressionType.values()) {
            MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16),
                Compression.of(type).build(), TimestampType.CREATE_TIME, 0L);
            builder.setProducerState(4000L, (short) 2, 17, false);
            rows.forEach(builder::append);
            print("java-" + type.name, builder.build());
        }
        MemoryRecordsBuilder appendTime = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), (byte) 2,
            Compression.NONE, TimestampType.LOG_APPEND_TIME, 40L, 1700000009999L);
        rows.forEach(appendTime::append);
        print("java-append-time", appendTime.build());
        MemoryRecordsBuilder compacted = MemoryRecords.builder(ByteBuffer.allocate(1 << 16),
            Compression.NONE, TimestampType.CREATE_TIME, 0L);
        for (int index = 0; index < rows.size(); index += 3) compacted.appendWithOffset(index, rows.get(index));
        print("java-compacted", compacted.build());
        for (ControlRecordType type : List.of(ControlRecordType.ABORT, ControlRecordType.COMMIT)) {
            print("java-marker-" + type.name().toLowerCase(), MemoryRecords.withEndTransactionMarker(
                0L, 1700000000000L, -1, 4000L, (short) 3, new EndTransactionMarker(type, 7)));
        }
        for (String line : lines) {
            byte[] key = bytes(line.split(" ")[1]);
            if (key != null) System.out.println("murmur2 " + HEX.formatHex(key) + " " + Utils.murmur2(key));
        }
    }

    static void read(List<String> lines) {
        for (String line : lines) {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(line)));
            for (MutableRecordBatch batch : records.batches()) {
                batch.ensureValid();
                for (Record record : batch) {
                    record.ensureValid();
                    StringBuilder headers = new StringBuilder();
                    for (Header header : record.headers()) {
                        if (headers.length() > 0) headers.append(',');
                        headers.append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)));
                        headers.append(':').append(text(header.value()));
                    }
                    System.out.println(record.timestamp() + " " + text(Utils.toNullableArray(record.key())) + " "
                        + text(Utils.toNullableArray(record.value())) + " " + headers);
                }
            }
            System.out.println();
        }
    }

    static SimpleRecord row(String line) {
        String[] parts = line.split(" ", -1);
        List<Header> headers = new ArrayList<>();
        for (String header : parts[3].isEmpty() ? new String[0] : parts[3].split(",")) {
            String[] pair = header.split(":", -1);
            headers.add(new RecordHeader(new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1])));
        }
        return new SimpleRecord(Long.parseLong(parts[0]), bytes(parts[1]), bytes(parts[2]), headers.toArray(new Header[0]));
    }

    static byte[] bytes(String text) {
        return text.equals("-") ? null : HEX.parseHex(text);
    }

    static String text(byte[] bytes) {
        return bytes == null ? "-" : HEX.formatHex(bytes);
    }

    static void print(String name, MemoryRecords records) {
        byte[] batch = new byte[records.sizeInBytes()];
        records.buffer().duplicate().get(batch);
        System.out.println("batch " + name + " " + HEX.formatHex(batch));
    }
}
