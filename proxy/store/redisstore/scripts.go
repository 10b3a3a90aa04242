package redisstore

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// swapScript replaces or deletes a value that begins with a tag. Arguments: 1 or 0 for deletion, value, milliseconds, tags.
var swapScript = rueidis.NewLuaScript(`
local had = redis.call('GETRANGE', KEYS[1], 0, #ARGV[4] - 1)
for i = 4, #ARGV do
	if had == ARGV[i] then
		if ARGV[1] == '1' then redis.call('DEL', KEYS[1])
		else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
		return 1
	end
end
return 0`)

// extendScript sets the expiry of a value that begins with a tag.
var extendScript = rueidis.NewLuaScript(`
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

var countScript = rueidis.NewLuaScript(`
local n = redis.call('INCRBY', KEYS[1], ARGV[1])
if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return n`)

// joinScript adds a member with its expiry as the score. Arguments: member, milliseconds, most members.
var joinScript = rueidis.NewLuaScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1]) -- at first: a full server refuses only a script's first write
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local over = redis.call('ZCARD', KEYS[1]) - ARGV[3]
if over > 0 then redis.call('ZREMRANGEBYRANK', KEYS[1], 0, over - 1) end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1`)

var membersScript = rueidis.NewLuaScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
return redis.call('ZREVRANGEBYSCORE', KEYS[1], '+inf', '(' .. string.format('%.0f', now), 'WITHSCORES', 'LIMIT', ARGV[1], ARGV[2])`)

// accounts begins the scripts of charges. The account of a key is a hash with the fields of each limit: tokens (t), when these were right (a), how many there are at most
// (l) until a time (u), the start of the window (s) and the calls in it (c). Times are microseconds. store/charge.go does the
// same in memory, and says what it means; a test holds the two together.
const accounts = `
local function number(x) return string.format('%.17g', x) end
local function clock(given)
	if given ~= '0' then return tonumber(given) end
	local t = redis.call('TIME')
	return t[1] * 1000000 + t[2]
end
-- limit reads the seven arguments that begin at ARGV[i].
local function limit(i)
	return {id = ARGV[i], rate = tonumber(ARGV[i+1]), burst = tonumber(ARGV[i+2]), window = tonumber(ARGV[i+3]),
		most = tonumber(ARGV[i+4]), ahead = tonumber(ARGV[i+5]), offset = tonumber(ARGV[i+6])}
end
local function current(l, now)
	local had = redis.call('HMGET', KEYS[1], l.id..':t', l.id..':a', l.id..':l', l.id..':u', l.id..':s', l.id..':c')
	local b = {tokens = tonumber(had[1] or l.burst), at = tonumber(had[2] or 0), left = tonumber(had[3] or 0), till = tonumber(had[4] or 0),
		start = tonumber(had[5] or 0), used = tonumber(had[6] or 0)}
	if l.window > 0 then
		local start = math.floor((now + l.offset) / l.window) * l.window - l.offset
		if b.start ~= start then b.start, b.used = start, 0 end
		return b
	end
	if b.at > 0 then b.tokens = math.min(l.burst, b.tokens + l.rate * math.max(now - b.at, 0) / 1e6) end
	b.at = now
	return b
end
local function keep(l, b, now)
	if l.window > 0 then
		redis.call('HSET', KEYS[1], l.id..':s', number(b.start), l.id..':c', number(b.used))
		return b.start + l.window
	end
	redis.call('HSET', KEYS[1], l.id..':t', number(b.tokens), l.id..':a', number(b.at), l.id..':l', number(b.left), l.id..':u', number(b.till))
	return math.max(now + (l.burst - b.tokens) / l.rate * 1e6, b.till)
end
local function expire(ends, now)
	local ms = math.min(math.max(math.ceil((ends - now) / 1000), 1), 34560000000)
	if redis.call('PTTL', KEYS[1]) < ms then redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ms)) end
end
`

// chargeScript has the arguments: time, n, 1 for force, and seven for each limit. It returns 1 if all limits were charged, and
// five texts for each limit.
var chargeScript = rueidis.NewLuaScript(accounts + `
local now, n, force = clock(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local limits, after, waits, told, ok = {}, {}, {}, {}, 1
for i = 4, #ARGV, 7 do
	local l = limit(i)
	local b = current(l, now)
	local wait, said = 0, 0
	if l.window > 0 then
		if l.most >= 0 and b.used + n > l.most then wait = b.start + l.window - now end
	else
		local need = n + l.ahead
		if b.tokens < need * (1 - 1e-6) then wait = math.max((need - b.tokens) / l.rate * 1e6, 1) end
		if b.till > now and b.left < need and b.till - now >= wait then wait, said = b.till - now, 1 end
	end
	if force or n <= 0 then wait, said = 0, 0 end
	if wait > 0 then ok = 0 end
	limits[#limits+1], after[#after+1], waits[#waits+1], told[#told+1] = l, b, wait, said
end
local ends, out = 0, {ok}
for i, l in ipairs(limits) do
	local b = after[i]
	if ok == 1 then
		if l.window > 0 then b.used = math.max(b.used + n, 0)
		else b.tokens, b.left = math.min(b.tokens - n, l.burst), b.left - n end
		ends = math.max(ends, keep(l, b, now))
	end
	local left, reset = b.tokens, 0
	if l.window > 0 then left, reset = l.most - b.used, b.start + l.window - now
	elseif b.till > now then left = math.min(left, b.left) end
	for _, x in ipairs({left, b.used, math.ceil(waits[i]), told[i], reset}) do out[#out+1] = number(x) end
end
if ends > 0 then expire(ends, now) end
return out`)

// correctScript has the arguments: time, number of limits, seven for each limit, and three for each correction: the number of its
// limit, the most tokens, and microseconds.
var correctScript = rueidis.NewLuaScript(accounts + `
local now, count = clock(ARGV[1]), tonumber(ARGV[2])
local ends = 0
for i = 3 + 7 * count, #ARGV, 3 do
	local l = limit(3 + 7 * tonumber(ARGV[i]))
	local b, most, span = current(l, now), tonumber(ARGV[i+1]), tonumber(ARGV[i+2])
	if span == 0 then b.tokens = math.min(b.tokens, most)
	elseif math.abs(now + span - b.till) < 2e6 then b.left = math.min(b.left, most)
	else b.left, b.till = most, now + span end
	ends = math.max(ends, keep(l, b, now))
end
if ends > 0 then expire(ends, now) end
return 1`)

// Swap implements [store.Engine].
func (e *Engine) Swap(ctx context.Context, key string, tags [][]byte, value []byte, ttl time.Duration) (bool, error) {
	args := []string{"0", rueidis.BinaryString(value), millis(ttl)}
	if value == nil {
		args[0] = "1"
	}
	for _, tag := range tags {
		args = append(args, rueidis.BinaryString(tag))
	}
	return yes(e.run(ctx, swapScript, key, args...))
}

// Extend implements [store.Engine].
func (e *Engine) Extend(ctx context.Context, key string, tag []byte, ttl time.Duration) (bool, error) {
	return yes(e.run(ctx, extendScript, key, rueidis.BinaryString(tag), millis(ttl)))
}

// Count implements [store.Engine].
func (e *Engine) Count(ctx context.Context, key string, n int64, window time.Duration) (int64, error) {
	total, err := e.run(ctx, countScript, key, strconv.FormatInt(n, 10), millis(window)).AsInt64()
	return total, named(err)
}

// Join implements [store.Engine].
func (e *Engine) Join(ctx context.Context, set string, member []byte, ttl time.Duration, most int) error {
	return named(e.run(ctx, joinScript, set, rueidis.BinaryString(member), millis(ttl), strconv.Itoa(most)).Error())
}

// Members implements [store.Engine].
func (e *Engine) Members(ctx context.Context, set string, skip, count int) ([]store.Member, error) {
	scored, err := e.run(ctx, membersScript, set, strconv.Itoa(skip), strconv.Itoa(count)).AsZScores()
	if err != nil {
		return nil, named(err)
	}
	members := make([]store.Member, len(scored))
	for i, m := range scored {
		members[i] = store.Member{Name: []byte(m.Member), Expires: time.UnixMilli(int64(m.Score))}
	}
	return members, nil
}

// Charge implements [store.Engine].
func (e *Engine) Charge(ctx context.Context, key string, c *store.Charge) (store.Charged, error) {
	args := make([]string, 0, 3+7*len(c.Limits))
	args = append(args, clock(c.Now), strconv.FormatInt(c.N, 10), "0")
	if c.Force {
		args[2] = "1"
	}
	list, err := e.run(ctx, chargeScript, key, appendLimits(args, c.Limits)...).ToArray()
	if err != nil {
		return store.Charged{}, named(err)
	}
	if len(list) != 1+5*len(c.Limits) {
		return store.Charged{}, fmt.Errorf("%w: a charge was answered by %d values", store.ErrRejected, len(list))
	}
	ok, err := list[0].AsInt64()
	if err != nil {
		return store.Charged{}, named(err)
	}
	out := store.Charged{OK: ok == 1, States: make([]store.State, len(c.Limits))}
	for i := range out.States {
		var n [5]float64
		for j := range n {
			if n[j], err = list[1+5*i+j].AsFloat64(); err != nil {
				return store.Charged{}, fmt.Errorf("%w: a charge was answered by something else: %w", store.ErrRejected, err)
			}
		}
		out.States[i] = store.State{Left: n[0], Used: int64(n[1]), Wait: micros(n[2]), Told: n[3] == 1, Reset: micros(n[4])}
	}
	return out, nil
}

// Correct implements [store.Engine].
func (e *Engine) Correct(ctx context.Context, key string, limits []store.Limit, to []store.Correction) error {
	args := appendLimits([]string{clock(time.Time{}), strconv.Itoa(len(limits))}, limits)
	for _, c := range to {
		for i := range limits {
			if limits[i].ID == c.ID {
				args = append(args, strconv.Itoa(i), number(c.AtMost), number(float64(c.For)/1e3))
			}
		}
	}
	return named(e.run(ctx, correctScript, key, args...).Error())
}

// appendLimits appends the seven arguments of each limit.
func appendLimits(args []string, limits []store.Limit) []string {
	for i := range limits {
		l := &limits[i]
		window, offset := float64(l.Window)/1e3, 0.0
		if window > 0 {
			offset = math.Mod(store.Epoch, window)
		}
		args = append(args, l.ID, number(l.Rate), number(l.Burst), number(window), strconv.FormatInt(l.Most, 10), strconv.FormatInt(l.Ahead, 10), number(offset))
	}
	return args
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

func yes(r rueidis.RedisResult) (bool, error) {
	n, err := r.AsInt64()
	return err == nil && n == 1, named(err)
}

func millis(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

func micros(n float64) time.Duration { return time.Duration(n) * time.Microsecond }

func number(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
