// Benthos, the engine of Redpanda Connect, with a file in place of a topic: the input kafka_franz reads the events of
// LISTSTORE_CHECK_EVENTS in batches, and ends at the end of the file. It counts acknowledged events in
// LISTSTORE_CHECK_ACKNOWLEDGED, one line for each.
package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"
)

// topic is the input. Only its count ends a batch.
type topic struct {
	count  int
	events [][]byte
	offset int
	mutex  sync.Mutex
}

func (t *topic) Connect(context.Context) error {
	if t.events != nil {
		return nil
	}
	text, err := os.ReadFile(os.Getenv("LISTSTORE_CHECK_EVENTS"))
	t.events = bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return err
}

func (t *topic) ReadBatch(context.Context) (service.MessageBatch, service.AckFunc, error) {
	end := min(t.offset+t.count, len(t.events))
	if t.offset == end {
		return nil, nil, service.ErrEndOfInput
	}
	var batch service.MessageBatch
	for ; t.offset < end; t.offset++ {
		message := service.NewMessage(t.events[t.offset])
		message.MetaSetMut("kafka_partition", 0)
		message.MetaSetMut("kafka_offset", t.offset)
		batch = append(batch, message)
	}
	events := len(batch)
	return batch, func(_ context.Context, failure error) error { return t.acknowledge(events, failure) }, nil
}

func (t *topic) acknowledge(events int, failure error) error {
	if failure != nil {
		return nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	file, err := os.OpenFile(os.Getenv("LISTSTORE_CHECK_ACKNOWLEDGED"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.WriteString(strings.Repeat("acknowledged\n", events)); err != nil {
		return err
	}
	return file.Close()
}

func (t *topic) Close(context.Context) error { return nil }

func main() {
	spec := service.NewConfigSpec().Fields(
		service.NewStringListField("seed_brokers"),
		service.NewStringListField("topics"),
		service.NewStringField("consumer_group"),
		service.NewBatchPolicyField("batching"),
	)
	open := func(conf *service.ParsedConfig, _ *service.Resources) (service.BatchInput, error) {
		policy, err := conf.FieldBatchPolicy("batching")
		if err != nil {
			return nil, err
		}
		return service.AutoRetryNacksBatched(&topic{count: policy.Count}), nil
	}
	if err := service.RegisterBatchInput("kafka_franz", spec, open); err != nil {
		panic(err)
	}
	service.RunCLI(context.Background())
}
