// A transactional copier, to be killed: what tests/peers/transactional_copiers/python.py is in Python.
//
// The client commits offsets and ends the transaction in one call, so either of what may be held back is held back
// before it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const transactionTimeout = 30 * time.Second

func tell(what map[string]any) {
	line, _ := json.Marshal(what)
	os.Stdout.Write(append(line, '\n'))
}

func last(err error) {
	for _, fenced := range []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping} {
		if errors.Is(err, fenced) {
			tell(map[string]any{"fenced": err.Error()})
			os.Exit(1)
		}
	}
	tell(map[string]any{"failed": err.Error()})
	os.Exit(1)
}

func copyRows(bootstrap, source, target, group, transactionalID, asked string) {
	var how struct {
		Rows       int `json:"rows"`
		AbortEvery int `json:"abort_every"`
		HoldAt     int `json:"hold_at"`
	}
	if err := json.Unmarshal([]byte(asked), &how); err != nil {
		panic(err)
	}
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.TransactionalID(transactionalID),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.SessionTimeout(1500*time.Millisecond),
		kgo.RebalanceTimeout(3*time.Second),
		kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		last(err)
	}
	all := context.Background()
	// It asks for its id when it writes first, and until then its group may wait for offsets in an open transaction.
	if _, _, err := session.Client().ProducerID(all); err != nil {
		last(err)
	}
	tell(map[string]any{"ready": true})
	stdin := bufio.NewReader(os.Stdin)
	for number := 0; ; {
		fetched := session.PollRecords(all, how.Rows)
		if fetched.NumRecords() == 0 {
			continue
		}
		number++
		if err := session.Begin(); err != nil {
			last(err)
		}
		records := []*kgo.Record{}
		fetched.EachRecord(func(read *kgo.Record) {
			records = append(records, &kgo.Record{
				Topic: target, Partition: read.Partition, Key: read.Key, Value: read.Value,
			})
		})
		failed := session.ProduceSync(all, records...).FirstErr()
		if number == how.HoldAt {
			tell(map[string]any{"held": number})
			_, _ = stdin.ReadString('\n')
		}
		why := "its group has divided anew"
		end := kgo.TryCommit
		if failed != nil {
			end, why = kgo.TryAbort, failed.Error()
		} else if how.AbortEvery > 0 && number%how.AbortEvery == 0 {
			end, why = kgo.TryAbort, "asked for"
		}
		committed, err := session.End(all, end)
		if err != nil {
			last(err)
		}
		if committed {
			tell(map[string]any{"committed": number, "rows": len(records)})
		} else {
			tell(map[string]any{"aborted": number, "why": why})
		}
	}
}
