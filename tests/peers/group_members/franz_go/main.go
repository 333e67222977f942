// A member of a consumer group, to be killed: what tests/peers/group_members/python.py is in Python. As "drive", it
// is driven by whoever tries its client instead; as "copy", it copies a topic in transactions.
package main

import (
	"context"
	"encoding/json"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var printing sync.Mutex

func print(what map[string][]int64) {
	printing.Lock()
	defer printing.Unlock()
	line, _ := json.Marshal(what)
	os.Stdout.Write(append(line, '\n'))
}

func main() {
	if os.Args[1] == "drive" {
		drive(os.Args[2])
		return
	}
	if os.Args[1] == "copy" {
		given := os.Args[2:]
		copyRows(given[0], given[1], given[2], given[3], given[4], given[5])
		return
	}
	bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3]
	var how struct { // it divides cooperatively by default
		InstanceID *string       `json:"instance_id"`
		SessionMs  time.Duration `json:"session_ms"`
	}
	if err := json.Unmarshal([]byte(os.Args[4]), &how); err != nil {
		panic(err)
	}
	assigned := map[int32]bool{}
	tell := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			for _, partition := range changed[topic] {
				if has {
					assigned[partition] = true
				} else {
					delete(assigned, partition)
				}
			}
			found := []int64{}
			for partition := range assigned {
				found = append(found, int64(partition))
			}
			sort.Slice(found, func(i, j int) bool { return found[i] < found[j] })
			print(map[string][]int64{"assigned": found})
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.SessionTimeout(how.SessionMs * time.Millisecond),
		kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(tell(true)),
		kgo.OnPartitionsRevoked(tell(false)),
		kgo.OnPartitionsLost(tell(false)),
	}
	if how.InstanceID != nil {
		options = append(options, kgo.InstanceID(*how.InstanceID))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	for {
		fetched := client.PollFetches(context.Background())
		fetched.EachRecord(func(record *kgo.Record) {
			print(map[string][]int64{"read": {int64(record.Partition), record.Offset}})
		})
		limited, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_ = client.CommitUncommittedOffsets(limited)
		cancel()
	}
}
