package slowtest

import (
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func (j *job) request() error {
	if j.undeclared() {
		return nil
	}
	if err := j.requestWithin(); err != nil {
		return err
	}
	j.requestAcross()
	j.rename()
	return nil
}

// requestWithin applies the rules for requests between revisions with a handshake.
func (j *job) requestWithin() error {
	switch j.Method {
	case wire.Initialize:
		j.handshake("params", "clientInfo")
		j.clientCapabilities("params.capabilities")
	case wire.CompletionComplete:
		if j.down(r06) {
			if j.isText("params.ref.type", "ref/prompt") {
				j.strip("params.ref", "title")
			}
			j.strip("params", "context")
		}
	case wire.ToolsCall:
		j.stripTask()
	case wire.SamplingCreateMessage:
		return j.samplingRequest()
	case wire.ElicitationCreate:
		return j.elicitationRequest()
	case wire.TasksGet, wire.TasksResult, wire.TasksList, wire.TasksCancel:
		if (j.down(r11) || j.up(r26)) && (!j.bridgesTasks() || j.Method == wire.TasksList) {
			j.refuse(-32601, "Method not found: "+j.Method.String())
		}
	}
	return nil
}

func (j *job) notification() {
	j.notificationWithin()
	j.notificationAcross()
	j.rename()
}

func (j *job) notificationWithin() {
	switch j.Method {
	case wire.Progress:
		if j.down(r03) {
			j.strip("params", "message")
		}
	case wire.Cancelled:
		if j.down(r11) && !j.at("params.requestId").Exists() {
			j.drop()
		}
	case wire.ElicitationCompleted, wire.TasksStatus:
		if j.down(r11) {
			j.drop()
		}
	}
}

func (j *job) result() error {
	if !j.at("result").IsObject() {
		return fmt.Errorf("the result of %s is no object", j.Method)
	}
	if !j.resultType() {
		if j.verdict == wire.Forward {
			j.rename()
		}
		return nil
	}
	if err := j.resultWithin(); err != nil {
		return err
	}
	j.resultAcross()
	j.rename()
	return nil
}

func (j *job) resultWithin() error {
	switch j.Method {
	case wire.Initialize:
		j.handshake("result", "serverInfo")
		j.serverCapabilities("result.capabilities")
	case wire.ToolsList:
		j.tools("result.tools")
	case wire.ToolsCall:
		if err := j.taskResult(); err != nil {
			return err
		}
		if err := j.structuredContent(); err != nil { // by the blocks as the server sent them
			return err
		}
		for p := range j.each("result.content") {
			j.block(p)
		}
		return nil
	case wire.ResourcesList:
		for p := range j.each("result.resources") {
			j.resource(p)
		}
	case wire.ResourcesTemplatesList:
		for p := range j.each("result.resourceTemplates") {
			j.resource(p)
		}
	case wire.ResourcesRead:
		return j.contents("result.contents")
	case wire.PromptsList:
		for p := range j.each("result.prompts") {
			j.prompt(p)
		}
	case wire.PromptsGet:
		for p := range j.each("result.messages") {
			j.block(p + ".content")
		}
	case wire.RootsList:
		if j.down(r06) {
			for p := range j.each("result.roots") {
				j.stripMeta(p)
			}
		}
	case wire.SamplingCreateMessage:
		if err := j.taskResult(); err != nil {
			return err
		}
		return j.samplingResult()
	case wire.ElicitationCreate:
		if err := j.taskResult(); err != nil {
			return err
		}
		j.elicitationResult()
	case wire.TasksGet:
		j.taskState("result")
	case wire.TasksCancel:
		if j.bridgesTasks() && j.up(r26) {
			j.keepOnly("result", "_meta", "resultType")
		}
	}
	return nil
}

// taskResult refuses a result that creates a task that the client did not request. A result that
// also has an answer does not create a task.
func (j *job) taskResult() error {
	if (j.down(r11) || j.up(r26)) && j.at("result.task").IsObject() && !j.at("result.content").Exists() && !j.at("result.action").Exists() {
		if j.wantsTask() && !empty(j.at("result.task")) {
			j.flattenTask()
			return nil
		}
		return fmt.Errorf("%s was answered by a task", j.Method)
	}
	return nil
}

func (j *job) failure() {
	defer j.rename()
	j.failureAcross()
	switch {
	case j.down(r11):
		if j.at("error.code").Raw == "-32042" {
			j.urlElicitationRequired()
		}
		if !j.at("id").Exists() {
			j.set("id", "null")
		}
	case j.up(r11):
		if id := j.at("id"); id.Exists() && id.Type == gjson.Null {
			j.remove("id")
		}
	}
}

func (j *job) urlElicitationRequired() {
	text := unquote(j.at("error.message"))
	for p := range j.each("error.data.elicitations") {
		text += "\n- " + unquote(j.at(p+".message")) + ": " + unquote(j.at(p+".url"))
	}
	if j.Method == wire.ToolsCall && j.at("id").Type != gjson.Null { // a result needs an id
		j.remove("error")
		j.set("result", `{"content":[{"type":"text","text":`+quote(text)+`}],"isError":true}`)
		return
	}
	j.set("error.code", "-32603")
	if j.at("error.message").Exists() {
		j.set("error.message", quote(text))
	}
}

// handshake applies the rules for both the request and the result of initialize.
func (j *job) handshake(side, who string) {
	if j.at(side + ".protocolVersion").Exists() {
		j.set(side+".protocolVersion", quote(revisions[j.to]))
	}
	if j.down(r06) {
		j.strip(side+"."+who, "title")
	}
	if j.down(r11) {
		j.strip(side+"."+who, "icons", "description", "websiteUrl")
	}
}

func (j *job) clientCapabilities(path string) {
	j.eraCapabilities(path)
	if !j.at(path).IsObject() {
		return
	}
	if j.down(r11) {
		j.remove(path + ".tasks")
		if j.at(path + ".sampling").IsObject() {
			j.set(path+".sampling", "{}")
		}
		if e := j.at(path + ".elicitation"); e.IsObject() {
			if e.Get("url").Exists() && !e.Get("form").Exists() {
				j.remove(path + ".elicitation")
			} else {
				j.set(path+".elicitation", "{}")
			}
		}
	}
	if j.down(r06) {
		j.remove(path + ".elicitation")
	}
}

func (j *job) serverCapabilities(path string) {
	j.eraCapabilities(path)
	caps := j.at(path)
	if !caps.IsObject() {
		return
	}
	if j.down(r11) {
		j.remove(path + ".tasks")
	}
	if j.down(r03) {
		j.remove(path + ".completions")
	}
	if j.up(r03) && !caps.Get("completions").Exists() {
		offers := caps.Get("prompts").Exists() || caps.Get("resources").Exists()
		if offers {
			j.set(path+".completions", "{}")
		}
	}
}
