package slowtest

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// byServer reports whether the method is that of a server's request.
func (j *job) byServer() bool {
	return j.Method == wire.SamplingCreateMessage || j.Method == wire.RootsList || j.Method == wire.ElicitationCreate
}

// stays leaves the message to the caller.
func (j *job) stays() { j.verdict = wire.Local }

// undeclared refuses a server's request for a capability that the client did not declare. It reports whether it did.
func (j *job) undeclared() bool {
	if !j.up(r26) {
		return false
	}
	if j.Method == wire.SamplingCreateMessage && !j.Facts.Has(wire.ClientSampling) || j.Method == wire.RootsList && !j.Facts.Has(wire.ClientRoots) {
		j.refuse(-32601, "Method not found: "+j.Method.String())
		return true
	}
	return false
}

// requestAcross applies the rules for requests between the eras, after those of requestWithin.
func (j *job) requestAcross() {
	switch {
	case j.verdict != wire.Forward:
	case j.up(r26):
		j.requestUp()
	case j.down(r26):
		j.requestDown()
	}
}

func (j *job) requestUp() {
	switch j.Method {
	case wire.Ping:
		j.answer(`"result":{}`)
		return
	case wire.Initialize, wire.LoggingSetLevel, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		j.stays()
		return
	case wire.TasksResult:
		j.stays()
		return
	case wire.TasksUpdate:
		if !j.bridgesTasks() {
			j.refuse(-32601, "Method not found: "+j.Method.String())
			return
		}
	case wire.ToolsCall:
		j.drop1("params", "task")
	case wire.SamplingCreateMessage, wire.ElicitationCreate:
		for p := range j.each("params.tools") {
			j.drop1(p, "execution")
		}
		j.drop1("params", "task")
		j.drop1("params", "_meta")
		if j.Method == wire.ElicitationCreate {
			j.drop1("params", "elicitationId")
		}
	case wire.RootsList:
		j.dropAll("params", "_meta", "progressToken")
	}
	if j.byServer() {
		if !j.at("params").Exists() {
			j.set("params", "{}")
		}
		j.remove("jsonrpc")
		j.remove("id")
		j.stays()
		return
	}
	if !j.at("params").Exists() {
		j.set("params", "{}")
	}
	capabilities, client, level := "", "", ""
	if s := j.Stamp; s != nil {
		capabilities, client, level = string(s.Capabilities), string(s.ClientInfo), string(s.LogLevel)
	}
	if !j.at("params._meta").IsObject() {
		j.set("params._meta", "{}")
	}
	j.mark("params._meta", metaVersion, quote(revisions[j.to]), "")
	j.mark("params._meta", metaCapabilities, capabilities, "{}")
	j.mark("params._meta", metaClient, client, "")
	j.mark("params._meta", metaLevel, level, "")
}

// mark sets a reserved member to value. If value is empty, it sets a missing member to least.
func (j *job) mark(meta, name, value, least string) {
	path := meta + "." + escaped(name)
	switch there := j.at(path).Exists(); {
	case value != "":
		j.set(path, value)
	case there && (least != "" || j.Stamp == nil):
	case there:
		j.remove(path)
	case least != "":
		j.set(path, least)
	}
}

func (j *job) requestDown() {
	switch j.Method {
	case wire.Ping, wire.LoggingSetLevel, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		j.refuse(-32601, "Method not found: "+j.Method.String())
		return
	case wire.TasksGet, wire.TasksCancel, wire.TasksUpdate:
		if !j.bridgesTasks() {
			j.refuse(-32601, "Method not found: "+j.Method.String())
			return
		}
		if j.Method == wire.TasksUpdate {
			j.stays()
		}
	case wire.ServerDiscover, wire.SubscriptionsListen:
		j.stays()
	case wire.ToolsCall, wire.PromptsGet, wire.ResourcesRead:
		if j.wantsTask() && j.at("params").IsObject() {
			j.set("params.task", string(j.Stamp.Task))
		}
		j.drop1("params", "inputResponses")
		j.drop1("params", "requestState")
		if uri := j.at("params.uri"); j.Method == wire.ResourcesRead && uri.Type == gjson.String && len(uri.Raw) <= wire.MaxNote {
			j.made = uri.Raw
		}
	case wire.ElicitationCreate:
		if j.isText("params.mode", "url") && !j.at("params.elicitationId").Exists() {
			id := `"` + strings.Trim(j.at("id").Raw, `"`) + `"`
			if j.Stamp != nil && j.Stamp.ElicitationID != nil {
				id = string(j.Stamp.ElicitationID)
			}
			j.set("params.elicitationId", id)
		}
	case wire.SamplingCreateMessage:
		for p := range j.each("params.tools") {
			j.schemas(p)
		}
	}
	j.dropAll("params", "_meta", reserved...)
}

// drop1 removes a member of an object.
func (j *job) drop1(object, name string) {
	if j.at(object).IsObject() {
		j.remove(object + "." + escaped(name))
	}
}

func (j *job) notificationAcross() {
	switch {
	case j.verdict != wire.Forward:
	case j.up(r26):
		switch j.Method {
		case wire.TasksStatus:
			if !j.bridgesTasks() {
				j.drop()
				return
			}
			j.taskState("params")
			j.set("method", `"notifications/tasks"`)
			j.stays()
		case wire.RootsListChanged:
			j.drop()
		case wire.Cancelled:
			if !j.at("params.requestId").Exists() {
				j.drop()
			}
		case wire.Initialized, wire.ElicitationCompleted:
			j.stays()
		case wire.ToolsListChanged, wire.PromptsListChanged, wire.ResourcesListChanged, wire.ResourcesUpdated:
			if j.Stamp == nil || j.Stamp.Subscription == nil {
				return
			}
			if !j.at("params").Exists() {
				j.set("params", "{}")
			}
			if !j.at("params._meta").IsObject() {
				j.set("params._meta", "{}")
			}
			j.set("params._meta."+escaped(metaSubscription), string(j.Stamp.Subscription))
		}
	case j.down(r26):
		switch j.Method {
		case wire.SubscriptionsAcknowledged:
			j.stays()
		case wire.TasksNotified:
			if !j.bridgesTasks() {
				j.drop()
				return
			}
			j.taskState("params")
			j.set("method", `"notifications/tasks/status"`)
			j.dropAll("params", "_meta", reserved...)
		case wire.ToolsListChanged, wire.PromptsListChanged, wire.ResourcesListChanged, wire.ResourcesUpdated:
			j.dropAll("params", "_meta", reserved...)
		}
	}
}

// resultType reads the resultType of a modern result. final is false if the translation ends with it.
func (j *job) resultType() (final bool) {
	kind := j.at("result.resultType")
	if !j.down(r26) || !kind.Exists() || j.byServer() {
		return true
	}
	switch {
	case j.isText("result.resultType", "complete"):
		j.remove("result.resultType")
		return true
	case j.isText("result.resultType", "input_required"):
		j.stays()
		return false
	}
	if j.isText("result.resultType", "task") && j.wantsTask() {
		j.wrapTask()
		return false
	}
	text := compact(kind.Raw)
	if kind.Type == gjson.String {
		text = unquote(kind)
	}
	j.remove("result")
	j.set("error", `{"code":-32603,"message":`+quote("Unsupported result type: "+text)+`}`)
	return false
}

func (j *job) resultAcross() {
	cached := false
	switch j.Method {
	case wire.ToolsList, wire.PromptsList, wire.ResourcesList, wire.ResourcesTemplatesList, wire.ResourcesRead, wire.ServerDiscover:
		cached = true
	}
	switch {
	case j.down(r26):
		if cached {
			j.remove("result.ttlMs")
			j.remove("result.cacheScope")
		}
		j.dropAll("result", "_meta", reserved...)
	case !j.up(r26) || j.Method == wire.Initialize || j.Method == wire.SamplingCreateMessage:
	case j.byServer():
		j.remove("result._meta")
	default:
		if j.Method == wire.ToolsCall && !j.at("result.content").Exists() && !j.at("result.resultType").Exists() && !j.at("result.task").Exists() {
			j.set("result.content", "[]")
		}
		j.mark("result", "resultType", "", `"complete"`)
		if cached {
			ttl := "0"
			if s := j.Stamp; s != nil {
				ttl = strconv.FormatInt(s.TTL, 10)
			}
			j.set("result.ttlMs", ttl)
			j.set("result.cacheScope", `"private"`)
			if j.Method != wire.ResourcesRead && j.Method != wire.ServerDiscover && j.isText("result.nextCursor", "") {
				j.remove("result.nextCursor")
			}
		}
		if j.Stamp == nil || j.Stamp.ServerInfo == nil {
			return
		}
		if !j.at("result._meta").IsObject() {
			j.set("result._meta", "{}")
		}
		if path := "result._meta." + escaped(metaServer); !j.at(path).Exists() {
			j.set(path, string(j.Stamp.ServerInfo))
		}
	}
}

// booleans writes the boolean schemas of an object schema's properties as objects.
func (j *job) booleans(schema string) {
	properties := j.at(schema + ".properties")
	if !j.down(r26) || !j.at(schema).IsObject() || !properties.IsObject() {
		return
	}
	var out []string
	properties.ForEach(func(key, p gjson.Result) bool {
		value := p.Raw
		switch p.Type {
		case gjson.True:
			value = "{}"
		case gjson.False:
			value = `{"not":{}}`
		}
		out = append(out, key.Raw+":"+value)
		return true
	})
	j.set(schema+".properties", "{"+strings.Join(out, ",")+"}")
}

// eraTool changes the members that a tool has in one era only.
func (j *job) eraTool(p string) {
	switch {
	case j.up(r26):
		j.remove(p + ".execution")
	case j.down(r26):
		if j.carriesTasks() && !j.at(p+".execution").Exists() {
			j.set(p+".execution", `{"taskSupport":"optional"}`)
		}
		j.schemas(p)
	}
}

// schemas changes a tool's schemas to what revisions before 2026-07-28 allow.
func (j *job) schemas(tool string) {
	if !j.at(tool).IsObject() {
		return
	}
	if schema := j.at(tool + ".outputSchema"); schema.Exists() && textAt(schema, "type") != "object" {
		j.remove(tool + ".outputSchema")
	}
	j.booleans(tool + ".inputSchema")
	j.booleans(tool + ".outputSchema")
}

func (j *job) eraCapabilities(path string) {
	if !j.at(path).IsObject() {
		return
	}
	if j.up(r26) {
		j.remove(path + ".tasks")
		if j.Kind == wire.Request && j.at(path+".roots").IsObject() {
			j.remove(path + ".roots.listChanged")
		}
	}
	if j.up(r26) || j.down(r26) {
		if j.Kind == wire.Result && j.carriesTasks() {
			j.tasksCapability(path)
			return
		}
		j.dropAll(path, "extensions", tasksExtension)
	}
}

func (j *job) failureAcross() {
	code := j.at("error.code").Raw
	if !j.at("error").IsObject() {
		return
	}
	switch {
	case j.up(r26) && code == "-32042":
		j.stays()
	case j.up(r26) && code == "-32002":
		j.set("error.code", "-32602")
		if j.Method != wire.ResourcesRead || j.Note == "" {
			return
		}
		if data := j.at("error.data"); !data.Exists() {
			j.set("error.data", `{"uri":`+j.Note+`}`)
		} else if data.IsObject() && !data.Get("uri").Exists() {
			j.set("error.data.uri", j.Note)
		}
	case j.down(r26) && code == "-32602":
		if data := j.at("error.data"); j.Method == wire.ResourcesRead && data.IsObject() && data.Get("uri").Type == gjson.String {
			j.set("error.code", "-32002")
		}
	case j.down(r26) && (code == "-32020" || code == "-32021" || code == "-32022"):
		j.set("error.code", "-32603")
	}
}

// rename replaces ids and progress tokens with those of the other side.
func (j *job) rename() {
	if !j.up(r26) && !j.down(r26) || j.Stamp == nil || j.verdict == wire.Answer || j.verdict == wire.Drop {
		return
	}
	if id := j.at("id"); j.Stamp.ID != nil && id.Exists() && id.Type != gjson.Null {
		j.set("id", string(j.Stamp.ID))
	}
	token := ""
	switch {
	case j.Kind == wire.Request && j.at("params._meta").IsObject():
		token = "params._meta.progressToken"
	case j.Kind == wire.Notification && j.Method == wire.Progress && j.at("params").IsObject():
		token = "params.progressToken"
	}
	if token != "" && j.Stamp.ProgressToken != nil && j.at(token).Exists() {
		j.set(token, string(j.Stamp.ProgressToken))
	}
}
