// Drives franz-go by lines of JSON: what tests/peers/client_table/python_driver.py is in Python.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const timeout = 20 * time.Second

type row struct {
	Offset      int64       `json:"offset"`
	Value       string      `json:"value"`
	Key         *string     `json:"key"`
	Headers     [][2]string `json:"headers"`
	TimestampMs int64       `json:"timestamp_ms"`
}

type request struct {
	Do          string            `json:"do"`
	Topic       string            `json:"topic"`
	Group       string            `json:"group"`
	Rows        []row             `json:"rows"`
	Idempotent  bool              `json:"idempotent"`
	Codec       string            `json:"codec"`
	Count       int               `json:"count"`
	TimestampMs int64             `json:"timestamp_ms"`
	Partitions  int               `json:"partitions"`
	Settings    map[string]string `json:"settings"`
	Name        string            `json:"name"`
	Value       string            `json:"value"`
	Before      int64             `json:"before"`
	Offset      int64             `json:"offset"`
	Committed   bool              `json:"committed"`
	Commit      bool              `json:"commit"`

	TransactionalID string        `json:"transactional_id"`
	TimeoutMs       time.Duration `json:"timeout_ms"`
}

type driver struct{ bootstrap string }

var open *kgo.Client // with a transaction

type call func(driver, context.Context, request) (any, error)

var calls = map[string]call{
	"version":           driver.version,
	"produce":           driver.produce,
	"begin_transaction": driver.beginTransaction,
	"end_transaction":   driver.endTransaction,
	"consume":           driver.consume,
	"ends":              driver.ends,
	"offset_for_time":   driver.offsetForTime,
	"list_topics":       driver.listTopics,
	"create_topic":      driver.createTopic,
	"delete_topic":      driver.deleteTopic,
	"add_partitions":    driver.addPartitions,
	"topic_setting":     driver.topicSetting,
	"set_topic_setting": driver.setTopicSetting,
	"delete_records":    driver.deleteRecords,
	"list_groups":       driver.listGroups,
	"describe_group":    driver.describeGroup,
	"group_offsets":     driver.groupOffsets,
	"set_group_offset":  driver.setGroupOffset,
	"delete_group":      driver.deleteGroup,
}

func drive(bootstrap string) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		answer, _ := json.Marshal(driver{bootstrap}.answer(asked))
		fmt.Println(string(answer))
	}
}

func (d driver) answer(asked request) map[string]any {
	do, known := calls[asked.Do]
	if !known {
		return map[string]any{"absent": true}
	}
	limited, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	done, err := do(d, limited, asked)
	if err != nil {
		return map[string]any{"failed": err.Error()}
	}
	return map[string]any{"done": done}
}

func (d driver) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(d.bootstrap)}, options...)...)
}

func (d driver) admin(use func(*kadm.Client) (any, error)) (any, error) {
	client, err := d.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return use(kadm.NewClient(client))
}

func (d driver) version(context.Context, request) (any, error) {
	built, _ := debug.ReadBuildInfo()
	versions := map[string]string{}
	for _, module := range built.Deps {
		versions[module.Path] = strings.TrimPrefix(module.Version, "v")
	}
	return versions["github.com/twmb/franz-go"] + ", kadm " + versions["github.com/twmb/franz-go/pkg/kadm"], nil
}

func (d driver) produce(limited context.Context, asked request) (any, error) {
	codec := map[string]kgo.CompressionCodec{
		"none":   kgo.NoCompression(),
		"gzip":   kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(),
		"lz4":    kgo.Lz4Compression(),
		"zstd":   kgo.ZstdCompression(),
	}[asked.Codec]
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(codec),
		kgo.ProducerLinger(20 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if !asked.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := d.client(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []*kgo.Record{}
	for _, given := range asked.Rows {
		record := &kgo.Record{Topic: asked.Topic, Value: []byte(given.Value)}
		if given.Key != nil {
			record.Key = []byte(*given.Key)
		}
		for _, header := range given.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header[0], Value: []byte(header[1])})
		}
		if given.TimestampMs != 0 {
			record.Timestamp = time.UnixMilli(given.TimestampMs)
		}
		records = append(records, record)
	}
	offsets := []int64{}
	for _, produced := range client.ProduceSync(limited, records...) {
		if produced.Err != nil {
			return nil, produced.Err
		}
		offsets = append(offsets, produced.Record.Offset)
	}
	return offsets, nil
}

func (d driver) consume(limited context.Context, asked request) (any, error) {
	from := map[string]map[int32]kgo.Offset{asked.Topic: {0: kgo.NewOffset().At(0)}}
	options := []kgo.Opt{kgo.ConsumePartitions(from)}
	if asked.Committed {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := d.client(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	rows := []row{}
	for len(rows) < asked.Count {
		fetched := client.PollFetches(limited)
		if errors := fetched.Errors(); len(errors) > 0 {
			return nil, errors[0].Err
		}
		fetched.EachRecord(func(record *kgo.Record) {
			read := row{Offset: record.Offset, Value: string(record.Value), TimestampMs: record.Timestamp.UnixMilli()}
			if record.Key != nil {
				key := string(record.Key)
				read.Key = &key
			}
			for _, header := range record.Headers {
				read.Headers = append(read.Headers, [2]string{header.Key, string(header.Value)})
			}
			rows = append(rows, read)
		})
	}
	return rows, nil
}

func (d driver) beginTransaction(limited context.Context, asked request) (any, error) {
	client, err := d.client(
		kgo.TransactionalID(asked.TransactionalID),
		kgo.TransactionTimeout(asked.TimeoutMs*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return nil, err
	}
	open = client
	if err := client.BeginTransaction(); err != nil {
		return nil, err
	}
	records := []*kgo.Record{}
	for _, given := range asked.Rows {
		records = append(records, &kgo.Record{Topic: asked.Topic, Value: []byte(given.Value)})
	}
	return nil, client.ProduceSync(limited, records...).FirstErr()
}

func (d driver) endTransaction(limited context.Context, asked request) (any, error) {
	defer open.Close()
	return nil, open.EndTransaction(limited, kgo.TransactionEndTry(asked.Commit))
}

func offsetOf(listed kadm.ListedOffsets, err error, topic string) (int64, error) {
	if err != nil {
		return 0, err
	}
	found, _ := listed.Lookup(topic, 0)
	return found.Offset, found.Err
}

func (d driver) ends(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		listed, err := admin.ListStartOffsets(limited, asked.Topic)
		first, err := offsetOf(listed, err, asked.Topic)
		if err != nil {
			return nil, err
		}
		listed, err = admin.ListEndOffsets(limited, asked.Topic)
		end, err := offsetOf(listed, err, asked.Topic)
		return []int64{first, end}, err
	})
}

func (d driver) offsetForTime(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		listed, err := admin.ListOffsetsAfterMilli(limited, asked.TimestampMs, asked.Topic)
		return offsetOf(listed, err, asked.Topic)
	})
}

func (d driver) listTopics(limited context.Context, _ request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		listed, err := admin.ListTopics(limited)
		return listed.Names(), err
	})
}

func (d driver) createTopic(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		settings := map[string]*string{}
		for name, value := range asked.Settings {
			settings[name] = &value
		}
		_, err := admin.CreateTopic(limited, int32(asked.Partitions), 1, settings, asked.Topic)
		return nil, err
	})
}

func (d driver) deleteTopic(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		_, err := admin.DeleteTopic(limited, asked.Topic)
		return nil, err
	})
}

func (d driver) addPartitions(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		done, err := admin.UpdatePartitions(limited, asked.Partitions, asked.Topic)
		if err != nil {
			return nil, err
		}
		return nil, done.Error()
	})
}

func (d driver) topicSetting(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		described, err := admin.DescribeTopicConfigs(limited, asked.Topic)
		if err != nil {
			return nil, err
		}
		found, err := described.On(asked.Topic, nil)
		if err != nil {
			return nil, err
		}
		for _, setting := range found.Configs {
			if setting.Key == asked.Name {
				return setting.MaybeValue(), nil
			}
		}
		return nil, found.Err
	})
}

func (d driver) setTopicSetting(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		change := kadm.AlterConfig{Op: kadm.SetConfig, Name: asked.Name, Value: &asked.Value}
		done, err := admin.AlterTopicConfigs(limited, []kadm.AlterConfig{change}, asked.Topic)
		if err != nil {
			return nil, err
		}
		return nil, done[0].Err
	})
}

func (d driver) deleteRecords(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		before := kadm.Offsets{}
		before.AddOffset(asked.Topic, 0, asked.Before, -1)
		done, err := admin.DeleteRecords(limited, before)
		if err != nil {
			return nil, err
		}
		return nil, done.Error()
	})
}

func (d driver) listGroups(limited context.Context, _ request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		listed, err := admin.ListGroups(limited)
		return listed.Groups(), err
	})
}

func (d driver) describeGroup(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		described, err := admin.DescribeGroups(limited, asked.Group)
		if err != nil {
			return nil, err
		}
		group := described[asked.Group]
		partitions := []int{}
		for _, member := range group.Members {
			assigned, _ := member.Assigned.AsConsumer()
			count := 0
			for _, topic := range assigned.Topics {
				count += len(topic.Partitions)
			}
			partitions = append(partitions, count)
		}
		return map[string]any{"state": group.State, "partitions": partitions}, group.Err
	})
}

func (d driver) groupOffsets(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		fetched, err := admin.FetchOffsets(limited, asked.Group)
		if err != nil {
			return nil, err
		}
		found := map[int32]int64{}
		fetched.Each(func(one kadm.OffsetResponse) {
			if one.Topic == asked.Topic {
				found[one.Partition] = one.At
			}
		})
		return found, fetched.Error()
	})
}

func (d driver) setGroupOffset(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		moved := kadm.Offsets{}
		moved.AddOffset(asked.Topic, 0, asked.Offset, -1)
		done, err := admin.CommitOffsets(limited, asked.Group, moved)
		if err != nil {
			return nil, err
		}
		return nil, done.Error()
	})
}

func (d driver) deleteGroup(limited context.Context, asked request) (any, error) {
	return d.admin(func(admin *kadm.Client) (any, error) {
		_, err := admin.DeleteGroup(limited, asked.Group)
		return nil, err
	})
}
