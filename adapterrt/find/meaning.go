package find

import (
	"slices"
	"strings"
	"sync"
)

// meanings are what the words of a query mean.
type meanings struct {
	verbs    map[string]uint8    // the categories that a verb means, as bits, by its stem
	primary  map[string]Category // the first of these categories
	synonyms map[string][]string // further words for a word, by its stem
	phrases  map[string][]phrase // by the stem of their first word
	known    map[string]bool     // all words of the list, by their stems
}

// phrase is several words that mean something together.
type phrase struct {
	words []string // stems
	means []string
}

// maxGap is the largest number of other words between two words of a phrase, as in "give the customer
// their money back".
const maxGap = 3

// meant is what words mean. It is made for the first search.
var meant = sync.OnceValue(func() (m meanings) {
	m.primary = map[string]Category{}
	m.verbs, m.synonyms, m.phrases, m.known = map[string]uint8{}, map[string][]string{}, map[string][]phrase{}, map[string]bool{}
	for _, v := range verbs {
		var bits uint8
		for _, c := range v.categories {
			bits |= 1 << c
		}
		for w := range strings.FieldsSeq(v.words) {
			if m.verbs[stem(w)] |= bits; m.primary[stem(w)] == Any {
				m.primary[stem(w)] = v.categories[0]
			}
		}
	}
	for line := range strings.Lines(synonymText) {
		words, others, _ := strings.Cut(line, ":")
		var means []string
		for o := range strings.FieldsSeq(others) {
			means = append(means, stem(o))
			m.known[stem(o)] = true
		}
		for w := range strings.FieldsSeq(words) {
			if parts := strings.Split(w, "+"); len(parts) > 1 {
				for i := range parts {
					parts[i] = stem(parts[i])
				}
				list := m.phrases[parts[0]]
				if i := slices.IndexFunc(list, func(p phrase) bool { return slices.Equal(p.words, parts) }); i >= 0 {
					list[i].means = append(slices.Clip(list[i].means), means...)
				} else {
					m.phrases[parts[0]] = append(list, phrase{parts, means})
				}
				continue
			}
			s := stem(w)
			m.known[s] = true
			for _, o := range means {
				if o != s {
					m.synonyms[s] = append(m.synonyms[s], o)
				}
			}
		}
	}
	return m
})

// verbs are the categories that verbs mean. The first verb of a query counts.
var verbs = [...]struct {
	words      string
	categories []Category
}{
	{"get show list read see view fetch display find search look lookup check count tell download compare who which what where browse query retrieve inspect listen know return export verify validate preview estimate calculate predict track watch monitor hear", []Category{Read}},
	{"create make new open write post draft file register comment insert remind generate plan schedule build setup deploy", []Category{Create, Execute}},
	{"send text email mail publish buy purchase order book draw issue refund pay charge log submit translate transcribe reply answer convert notify call message request report", []Category{Create, Execute, Update}},
	{"add append attach upload invite copy fork give grant assign share import record connect link subscribe join react vote rate tag label pin apply clone duplicate upsert", []Category{Create, Update, Execute}},
	{"change edit update modify rename set put replace close reopen assign move mark lock star follow protect enable block ban save turn restore recover undo disable rotate renew extend patch adjust configure resize scale upgrade transfer transition mute hide unblock unban unlock activate deactivate complete finish fix reorder sort reset", []Category{Update, Create, Execute}},
	{"delete remove drop destroy erase clear trash unstar unfollow throw revoke unsubscribe uninstall disconnect detach unlink empty purge prune leave unpublish wipe", []Category{Delete, Update, Execute}},
	{"run start stop cancel restart rerun retry trigger dispatch merge execute launch kick pause resume skip play end terminate hang shut shutdown reboot approve accept reject decline archive confirm capture void expire rollback", []Category{Execute, Create, Update, Delete}},
}

// synonymText has words before the colon, and after it words that mean about the same. Words joined by + are
// a phrase, which also has the meaning if there are a few words in between. They are general English
// and words of the trade; an operation's own words belong into its aliases.
const synonymText = `
show display see view read fetch look inspect: get list retrieve
get: list retrieve fetch read
find query lookup: search list get
look+for: search list get
make new: create add
open file raise report: create
open: allow add update
write: create
who+can: permission access collaborator role
who+am+i who+i+am: authenticated me current
add attach: create
put leave: add set
save store: put create update
edit change modify alter adjust: update set
set: update put create
rename: update name
remove erase drop destroy discard throw wipe: delete remove
get+rid throw+away throw+out clean+up: delete remove prune
delete: remove
clean unused not+used free+space: prune cleanup delete unused
trash bin: delete archive trash
put+trash put+bin move+trash throw+trash: delete trash archive
stop abort end halt terminate: cancel stop end terminate
end: complete finish
hang+up: end hangup terminate update
turn+off switch+off: disable stop
turn+on switch+on: enable start
shut+down power+off: stop shutdown
restart reboot: restart reboot action
restart retry redo again: rerun restart
start launch trigger kick fire execute begin: run dispatch start
skip: next
go+back undo revert: restore rollback revert undo previous
bring+back get+back undelete recover: restore recover untrash undelete
back+online roll+back: restore rollback revert
money+back pay+back give+back reimburse: refund
send+back: return refund
copy duplicate clone: fork copy clone duplicate
kick kick+out: remove kick
ban: block
block: ban
unban: unblock
invite: add invitation member
sign+up register enrol enroll: create register signup account enroll
log+in sign+in: login session token
let+in allow permit: grant permission add allow
give+access: grant permission collaborator share
approve accept: review approve accept
reject decline refuse deny: review decline reject deny
answer reply respond: comment reply answer
close finish complete resolve done shut finished: state update close complete transition
done finished: status complete closed
reopen: state update
move transfer: update move transfer state transition
mute silence: lock unsubscribe mute
watch follow subscribe: subscription follow
diff difference changed: compare
join: membership join
assign hand+over: assignee assign update
book reserve: booking reservation create
schedule plan: schedule create
buy purchase order: create purchase order buy provision
sell sold: order sale
send: create post send
share: shared link share collaboration permission invite
publish online live: publish deploy
print printed: log output
draw paint: create generate image
turn+into convert: convert transform create
speech spoken talk voice: audio transcription speech
translate: translation
listen heard hear: play listen track recent
happen happened: event activity log
left+to+do still+to+do open+tasks: task incomplete
how+many: count total statistic
how+much: balance amount total usage stats cost price
who+is+in: member user
who+belongs: member user membership
who: user member
what+is+in inside content: item content list
what+is+on: item list
now currently right+now moment: current currently
latest newest recent last: latest recent last
old older earlier past: history version previous
most best: top most
repo: repository
repository: repo
org company organisation business: organization organisation company account
pr prs: pull request
merge: pull merge
ticket bug task story card defect: issue
issue: ticket
person someone anyone somebody human teammate colleague coworker friend: user member collaborator person people contact
member user: member user
account profile login logged: user
user: account
me myself: authenticated me current
note message remark feedback: comment
comment note: comment story note
conversation thread discussion chat: issue comment discussion conversation thread message
channel room: channel conversation room
group squad: team
text sms: message sms send
mail email: email mail message send
message: msg chat
call phone ring dial: call phone
thumbs like liked emoji react: reaction
favorite favourite like: star favorite
remind reminder: reminder
build ci pipeline job: workflow run action
build job: build job workflow
green red failed failing broken: status run
deploy deployment rollout: deployment workflow deploy
branch tag: ref branch
push: protect protection
sprint iteration: cycle
table spreadsheet: database source
row record entry: page item
entry: record item
record enter note+down: create add record
file document: content file
doc document: page document file
folder dir directory: content tree folder directory
paragraph text: block content
picture photo screenshot drawing: image picture photo attachment
screenshot: attachment file upload
attach attachment: attachment attach upload
song tune music: track song
track: song
band singer musician: artist
artist: singer
movie film: video title movie
visitor visit viewer viewed looked seen: view traffic visit
version: release tag revision
revision: version
column stage status: state status
password credential: secret token
access permission right allowed: permission access collaborator
inbox alert: notification alert
snippet: gist
bookmark: star
starred star: stargazer
attachment binary download: asset download
download: pull get export content
pull: create download
hook: webhook
env environment: environment variable env
variable: env
certificate https ssl: tls ssl certificate
dns domain+name: dns domain record
history log: log commit event history
log output console: log
log+work log+hours log+time track+time hours: worklog time timesheet
admin: owner member administrator
team: team member
about detail info: get info
server machine computer box host: instance server node machine droplet host vm
machine: node
cluster: node
vm: instance machine
memory cpu ram: stats usage metric resource
usage use: usage stats
port: rule
firewall: rule
copies more: replica scale
scale: replica
disk drive: volume disk storage
snapshot backup: snapshot backup
site website homepage: site page
customer client buyer: customer client user
supplier vendor: contact vendor supplier
contact: supplier customer
employee staff worker: employee team member user staff
bill: invoice bill
invoice: bill
money funds cash: balance payment money amount fund
owe debt due outstanding: balance invoice due outstanding
balance: account
unpaid paid+yet: invoice outstanding due overdue
paid pay: payment pay
payment: pay
discount voucher promo sale: coupon promotion discount
coupon: promotion discount
code: coupon
price cost fee spent spend: price cost amount billing usage charge rate
profit earn earned income revenue: profit loss income revenue report
loss: profit
stock store: inventory stock count
item product goods article: product item catalog
quantity left: count inventory quantity
loyal loyalty points: loyalty reward
subscription membership: subscription
plan: subscription price plan
meeting appointment: event meeting appointment calendar
calendar: event
vacation holiday time+off: leave absence holiday timeoff
salary wage: payroll pay salary
todo to+do chore errand: task todo
task: todo
weather temperature rain snow sunny: forecast weather current observation
forecast: weather
route directions way: direction route
near nearby around close+by: nearby search
bounce bounced undelivered: bounce
opened clicked: open click stats statistic
unsubscribed unsubscribe never: suppression unsubscribe block
spam junk: spam report
statistics stats numbers figures: stats statistic metric analytics report
report: report summary
model: engine
picture+from image+from: generation generate
tomorrow yesterday today: date
month monthly: month usage monthly
language: language locale
shipping delivery parcel package: shipment tracking delivery
track: tracking
review rating stars: review rating
kid child: child
car: vehicle
flat house home: property listing
hire job+opening: job candidate position
applicant: candidate application
lesson class: course class
grade mark: grade score
school student pupil: student
doctor patient: patient practitioner
light lamp: light switch device
sensor device gadget: device sensor
key: key token credential
lock: lock
logs: log
error crash exception: error event issue
outage incident: incident
oncall on+call: oncall schedule
set+up put+together: create add configure
call+off: cancel delete
put+off postpone delay: reschedule update snooze
take+down take+off take+out: delete remove unpublish
take+part attend: participant attendee
take+back: revoke undo cancel
tick tick+off check+off cross+off: complete check state
fill+in fill+out hand+in: submit update
look+up find+out: get search
let+know inform tell: notify send notification
let+go: delete remove
keep+out: block deny
lock+out suspend deactivate: suspend deactivate disable status block
cut+off: disconnect disable
ring+up: call create
jot write+down: create note
send+out: send publish
go+on carry+on continue: resume continue
start+over: restart
again: retry rerun resend restart
run+again try+again: rerun retry restart
back+up: backup snapshot
link+up hook+up connect: connect link integration
disconnect: unlink disconnect delete
bring+in pull+in: import
get+out: export
cash+out pay+out: payout
top+up: topup credit
stick pin: add pin
drag: move update
insert: add create
put+into put+on put+in: add insert update
take+from: remove delete
combine join+together: merge combine
split+up divide: split
sort order+by: sort reorder
check verify validate: verify validate check
test try: test
fix repair: update repair
reset forgot+password change+password: password reset
blocked: block
hide: hide update privacy visibility
private public visible: visibility privacy
empty: clear empty purge
guess predict: predict prediction
summarize summary: summary
explain why: detail error status
subtitle caption: caption subtitle text track
clip film footage video: video clip
viewer audience: viewer user
fan follower subscriber: follower subscriber
follow: follow follower
opinion say+about think: comment review feedback
letter: message mail draft
later: draft schedule
newsletter campaign: campaign newsletter mailing
mailing+list: list audience
recipient addressee: recipient contact
out+of+office: vacation absence
diary agenda: calendar schedule
free busy available: availability free busy slot
slot: slot availability
guest attendee invitee: attendee participant guest invitee registrant
participant: attendee participant member
webinar: webinar event
label tag category: label tag category
milestone deadline: due milestone date
due: date
owner: owner assignee
reviewer approver: reviewer approver approval
approval approve: approval reviewer approve
secret: secret variable credential
test: test check
artifact: artifact file
space: storage quota usage
storage: storage quota bucket
quota: limit quota usage
limit: limit quota
bucket: bucket object
network: network subnet
ip: ip address
address: address location
apikey api+key: key token
event: event activity
alarm alert: alert alarm incident
metric graph chart: metric stats chart
survey poll questionnaire: survey form poll
form: form submission response
answers replies: response reply answer submission
faq help+page article: article page
cart basket: cart basket checkout
gift: gift
tax vat: tax
estimate quote offer: quote estimate offer
transaction: transaction payment
transfer wire: transfer payment
bank: bank account
credit+card debit+card: card payment method
card: card payment
trial: trial subscription
upgrade downgrade: update plan subscription
shift rota: shift schedule roster
timesheet: time entry timesheet
lead prospect: lead contact
deal opportunity: deal opportunity
place venue: place location venue
hotel: hotel property accommodation
flight plane: flight
trip journey ride: trip ride route
headline story: article news
share: stock
currency exchange+rate: currency rate exchange
recipe dish meal: recipe meal food
restaurant: restaurant venue business
match game: game match fixture
score result: score result
player: player athlete
podcast episode: podcast episode show
album: album gallery
gallery: album gallery
cover thumbnail: thumbnail cover image
avatar: avatar picture photo image
thermostat heating: thermostat temperature
password: password credential
username: user
location: location position
translation: translate
domain: domain zone
owner: owner
progress: status progress state
health healthy alive: health status ping
version: version
update upgrade: update upgrade
install: install add
uninstall: uninstall delete remove
enable activate: enable activate
disable: disable deactivate
renew extend: renew extend update
expire: expiration expire
verify confirm: confirm verify
count: count total
rate: rate rating
vote: vote rate rating
subscribe: subscription subscribe create
unsubscribe: unsubscribe subscription delete remove
stop+following: unfollow subscription delete
stop+watching: unwatch unsubscribe stop
turn+off switch+off power+off: shutdown poweroff
turn+on switch+on power+on: boot poweron
popular favorite trending famous: best top trending popular
similar like+this alike: similar related recommendation
similar: recommendation
about+topic: search
random: random
watch watcher: watcher subscriber
big bigger large larger small smaller size: resize size
traffic bandwidth: traffic bandwidth transfer usage
spent spend: transaction expense
deposit: deposit payment
bank: institution
institution: bank
supported available: supported available
dish: recipe
cook: recipe ingredient
calorie nutrition: nutrition nutrient
wine drink: pairing
suggest recommend: recommendation suggestion
free+to: availability available status
available: availability
availability: available status
admin: admin
connect: create
behind: add
attach: add target
target: attach
logs: event
look+like: detail get
warning: alert
boost retweet repost: reblog reshare repost
concert gig performance: event
performer: artist attraction
take+payment: payment charge
watched seen: played watched view
scan: scan refresh
bin: trash
`
