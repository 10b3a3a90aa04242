package legacyclient

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// A finished task is in the store as well, so that every replica can answer requests about it.

const taskKind = "session_task"

// The ids of shared tasks are UUIDs of version 8 (RFC 9562, section 5.8) with a check value, so that requests about the
// server's own tasks need no look-up.
const (
	versionAt     = 14
	sharedVersion = '8'
	uuidLength    = 36
	checkAt       = uuidLength - 6
)

// newTaskID returns the id of a task that dragoman makes.
func (c *Conn) newTaskID() string {
	id := mcp.NewUUID()
	if c.shared.store == nil {
		return id
	}
	id = id[:versionAt] + string(sharedVersion) + id[versionAt+1:checkAt]
	return id + c.check(id)
}

// check returns the end of the id of a shared task that begins so.
func (c *Conn) check(begins string) string {
	sum := sha256.Sum256([]byte(c.shared.key.Name + begins))
	return hex.EncodeToString(sum[:(uuidLength-checkAt)/2])
}

// isShared reports whether a replica that shares this session has made the task.
func (c *Conn) isShared(id string) bool {
	return c.shared.store != nil && len(id) == uuidLength && id[versionAt] == sharedVersion && id[checkAt:] == c.check(id[:checkAt])
}

func (c *Conn) taskKey(id string) store.Key {
	return store.Key{Kind: taskKind, Name: c.shared.key.Name + id}
}

// shareTask stores a finished task. If the store does not take it, only this replica has it.
func (c *Conn) shareTask(t *finishedTask) {
	life := time.Until(t.expires)
	if c.shared.store == nil || life < time.Second {
		return
	}
	value := binary.BigEndian.AppendUint64(make([]byte, 0, len(t.state)+len(t.result)+16), uint64(t.expires.UnixMilli()))
	value = binary.AppendUvarint(value, uint64(len(t.state)))
	value = append(append(value, t.state...), t.result...)
	if err := c.shared.store.Set(context.WithoutCancel(c.life), c.taskKey(t.id), value, life); err != nil {
		c.host.Log.Debug("cannot store a finished task: only this replica has it", zap.Error(err))
	}
}

// sharedTask returns a finished task that another replica has stored, or that this one has dropped.
func (c *Conn) sharedTask(ctx context.Context, id string) (finishedTask, error) {
	value, err := c.shared.store.Get(ctx, c.taskKey(id))
	if err != nil && !errors.Is(err, store.ErrAbsent) {
		c.host.Log.Debug("cannot read a finished task", zap.Error(err))
		return finishedTask{}, mcp.Saying(mcp.CodeInternal, "the task is kept in a store that cannot be reached now; try again later")
	}
	t, ok := readTask(id, value)
	if !ok {
		return t, mcp.Saying(mcp.CodeInvalidParams, "Task not found: "+id)
	}
	return t, nil
}

// readTask reads what shareTask stores.
func readTask(id string, value []byte) (t finishedTask, ok bool) {
	if len(value) < 8 {
		return t, false
	}
	t.id, t.expires = id, time.UnixMilli(int64(binary.BigEndian.Uint64(value)))
	n, width := binary.Uvarint(value[8:])
	if width <= 0 || n > uint64(len(value)-8-width) {
		return t, false
	}
	rest := value[8+width:]
	t.state, t.result = rest[:n:n], rest[n:]
	return t, time.Now().Before(t.expires)
}
