// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/fleet/client"
)

// read parses arguments in an environment of its own.
func read(env map[string]string, args ...string) (Options, error) {
	var environ []string
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	return parse(args, environ, &bytes.Buffer{})
}

func TestWhatNobodySetsHasItsDefault(t *testing.T) {
	g := NewWithT(t)
	options, err := read(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(options.EvidenceGrace).To(Equal(2 * time.Hour))
	g.Expect(options.FindingRetention).To(Equal(30 * 24 * time.Hour))
	g.Expect(options.MetricsBindAddress).To(Equal("0"))
	g.Expect(options.Controllers).To(Equal(map[string]*ControllerOptions{
		"report": {Enabled: true, Workers: 8}, "finding": {Enabled: true, Workers: 8},
		"signalpolicy": {Enabled: true, Workers: 1}, "suppression": {Enabled: true, Workers: 1},
		"operatingpolicy": {Enabled: true, Workers: 1},
		"pipeline":        {Enabled: true, Workers: 1}, "collector": {Enabled: true, Workers: 1}, "policy": {Enabled: true, Workers: 4},
		"pipeline-discovery": {Enabled: true, Workers: 1}, "collector-discovery": {Enabled: true, Workers: 1},
		"external-sync": {Enabled: true, Workers: 4}, "tenant-policy": {Enabled: true, Workers: 1},
	}))
	defaults := DefaultOptions()
	g.Expect(defaults.Validate()).To(Succeed())
	g.Expect(defaults.Controllers).To(Equal(options.Controllers))
}

func TestAVariableThatNoFlagHasIsTold(t *testing.T) {
	g := NewWithT(t)
	options, err := read(map[string]string{"CANDOR_EVIDENCE_GRAZE": "4h", "CANDOR_EVIDENCE_GRACE": "3h", "CANDOR_VERSION": "1", "OTHER": "x"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(options.UnknownVariables).To(Equal([]string{"CANDOR_EVIDENCE_GRAZE"}))
}

func TestArgumentsWinOverTheEnvironment(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		args []string
		want time.Duration
	}{
		"neither":                         {nil, nil, 2 * time.Hour},
		"the environment":                 {map[string]string{"CANDOR_EVIDENCE_GRACE": "5m"}, nil, 5 * time.Minute},
		"an argument":                     {nil, []string{"--evidence-grace=7m"}, 7 * time.Minute},
		"an argument of one dash":         {nil, []string{"-evidence-grace", "7m"}, 7 * time.Minute},
		"both":                            {map[string]string{"CANDOR_EVIDENCE_GRACE": "5m"}, []string{"--evidence-grace=7m"}, 7 * time.Minute},
		"an argument twice":               {nil, []string{"--evidence-grace=7m", "--evidence-grace=8m"}, 8 * time.Minute},
		"a variable that is not Candor's": {map[string]string{"EVIDENCE_GRACE": "5m"}, nil, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			options, err := read(test.env, test.args...)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(options.EvidenceGrace).To(Equal(test.want))
		})
	}
}

func TestEveryFlagHasAVariableOfItsOwn(t *testing.T) {
	g := NewWithT(t)
	flags, env := map[string]string{}, map[string]string{}
	Flags(func(f *flag.Flag) {
		name := EnvName(f.Name)
		g.Expect(name).To(MatchRegexp(`^CANDOR_[A-Z0-9_]+$`))
		g.Expect(flags).NotTo(HaveKey(name))
		flags[name] = f.Name
		if f.DefValue != "" {
			env[name] = f.DefValue
		}
	})
	g.Expect(flags).To(And(HaveKeyWithValue("CANDOR_LEADER_ELECT", "leader-elect"), HaveKeyWithValue("CANDOR_ENABLE_REPORT_CONTROLLER", "enable-report-controller")))
	options, err := read(env)
	g.Expect(err).NotTo(HaveOccurred(), "what a flag says is its default can be set")
	g.Expect(options.Controllers).To(Equal(DefaultOptions().Controllers))

	options, err = read(map[string]string{
		"CANDOR_LEADER_ELECT": "true", "CANDOR_POD_NAMESPACE": "candor-system", "CANDOR_ENABLE_REPORT_CONTROLLER": "false", "CANDOR_CONTROLLER_FINDING_MAX_CONCURRENT": "3",
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(options.LeaderElect).To(BeTrue())
	g.Expect(options.Controllers).To(Equal(map[string]*ControllerOptions{
		"report": {Enabled: false, Workers: 8}, "finding": {Enabled: true, Workers: 3},
		"signalpolicy": {Enabled: true, Workers: 1}, "suppression": {Enabled: true, Workers: 1}, "operatingpolicy": {Enabled: true, Workers: 1},
		"pipeline": {Enabled: true, Workers: 1}, "collector": {Enabled: true, Workers: 1}, "policy": {Enabled: true, Workers: 4},
		"pipeline-discovery": {Enabled: true, Workers: 1}, "collector-discovery": {Enabled: true, Workers: 1},
		"external-sync": {Enabled: true, Workers: 4}, "tenant-policy": {Enabled: true, Workers: 1},
	}))
}

func TestAWrongFlagNamesItselfItsValueAndWhatWouldBeRight(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"a word for a number": {
			nil,
			[]string{"--webhook-port=https"},
			`invalid value "https" for flag -webhook-port: parse error. --webhook-port: Port of the admission webhooks. Default: 9443`,
		},
		"a number for a duration": {
			nil,
			[]string{"--evidence-grace=2"},
			`invalid value "2" for flag -evidence-grace: parse error. --evidence-grace: How long a missing report changes nothing, 0 to 24h. After that its Finding is Stale. Default: 2h0m0s`,
		},
		"a word for yes or no": {
			nil,
			[]string{"--leader-elect=maybe"},
			`invalid boolean value "maybe" for -leader-elect: parse error. --leader-elect: Let only one replica work at a time. Default: false`,
		},
		"a flag that nobody knows": {nil, []string{"--evidence-grase=2h"}, `flag provided but not defined: -evidence-grase; --help lists every flag`},
		"a flag without a value":   {nil, []string{"--webhook-port"}, `flag needs an argument: -webhook-port; --help lists every flag`},
		"a word that is no flag":   {nil, []string{"--leader-elect", "false"}, `"false" is no flag: flags are written --name=value`},
		"a wrong variable": {
			map[string]string{"CANDOR_WEBHOOK_PORT": "https"}, nil, `environment variable CANDOR_WEBHOOK_PORT: "https" is not a whole number: Port of the admission webhooks.`,
		},
		"two wrong variables": {
			map[string]string{"CANDOR_WEBHOOK_PORT": "https", "CANDOR_LEADER_ELECT": "maybe"},
			nil,
			"environment variable CANDOR_LEADER_ELECT: \"maybe\" is not true or false: Let only one replica work at a time.\n" +
				`environment variable CANDOR_WEBHOOK_PORT: "https" is not a whole number: Port of the admission webhooks.`,
		},
		"a value that is read and out of range": {
			map[string]string{"CANDOR_WEBHOOK_PORT": "70000"}, nil, `--webhook-port=70000: must be between 1 and 65535`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(test.env, test.args...)
			NewWithT(t).Expect(err).To(MatchError(test.want))
		})
	}
}

func TestHelpListsEveryFlag(t *testing.T) {
	g := NewWithT(t)
	var help bytes.Buffer
	_, err := parse([]string{"--help"}, nil, &help)
	g.Expect(err).To(MatchError(flag.ErrHelp))
	Flags(func(f *flag.Flag) { g.Expect(help.String()).To(ContainSubstring("  -" + f.Name)) })
	g.Expect(help.String()).To(ContainSubstring("-kubeconfig"))
}

func TestEveryMistakeIsListed(t *testing.T) {
	var off []string
	for _, s := range setups() {
		off = append(off, "--enable-"+s.name+"-controller=false")
	}
	const (
		grace     = "must be between 0 and 24h"
		retention = "must be 0, which keeps Findings, or at least 1m"
		workers   = "must be between 1 and 64"
		nothing   = "every controller is turned off, so there is nothing to do: set --enable-…-controller of one"
	)
	lease := func(lease, renew string) string {
		return "--leader-election-lease-duration=" + lease + ": must be at least 1s and longer than --leader-election-renew-deadline=" + renew
	}
	retry := func(retry, renew string) string {
		return "--leader-election-retry-period=" + retry +
			": must be positive, and 1.2 times as long still shorter than --leader-election-renew-deadline=" + renew
	}
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"bounds are right":                          {[]string{"--evidence-grace=0", "--finding-retention=1m", "--webhook-port=65535", "--controller-report-max-concurrent=64"}, nil},
		"other bounds are right":                    {[]string{"--evidence-grace=24h", "--finding-retention=0", "--webhook-port=1", "--controller-report-max-concurrent=1"}, nil},
		"bounds of telling are right":               {[]string{"--notification-window=0", "--digest-interval=1m"}, nil},
		"other bounds of telling are right":         {[]string{"--notification-window=10m", "--digest-interval=0", "--notification-allow-cidrs=10.96.0.0/12,127.0.0.0/8"}, nil},
		"no digest, as the existing Candor says it": {[]string{"--digest-interval=-1s"}, nil},
		"a window of too long, and digests too often": {
			[]string{"--notification-window=11m", "--digest-interval=59s"},
			[]string{"--notification-window=11m0s: must be between 0 and 10m", "--digest-interval=59s: must be 0, which never tells, or at least 1m"},
		},
		"a network for sinks that is none": {
			[]string{"--notification-allow-cidrs=ten"},
			[]string{`--notification-allow-cidrs=ten: allow: "ten" is not a CIDR: write an address and a length, such as 10.0.0.0/8 or fd00::/8`},
		},
		"certificates for sinks that are not there": {[]string{"--notification-ca-bundle=/nowhere/ca.pem"}, []string{"--notification-ca-bundle: open /nowhere/ca.pem: no such file or directory"}},
		"a grace below nothing":                     {[]string{"--evidence-grace=-1s"}, []string{"--evidence-grace=-1s: " + grace}},
		"a grace of more than a day":                {[]string{"--evidence-grace=24h1s"}, []string{"--evidence-grace=24h0m1s: " + grace}},
		"a retention of seconds":                    {[]string{"--finding-retention=59s"}, []string{"--finding-retention=59s: " + retention}},
		"a retention below nothing":                 {[]string{"--finding-retention=-1h"}, []string{"--finding-retention=-1h0m0s: " + retention}},
		"no port":                                   {[]string{"--webhook-port=0"}, []string{"--webhook-port=0: must be between 1 and 65535"}},
		"a lease as long as its renewal":            {[]string{"--leader-election-lease-duration=107s"}, []string{lease("1m47s", "1m47s")}},
		"a retry longer than a renewal":             {[]string{"--leader-election-retry-period=108s"}, []string{retry("1m48s", "1m47s")}},
		"no retry":                                  {[]string{"--leader-election-retry-period=0"}, []string{retry("0s", "1m47s")}},
		"a leader with no place for its lease": {
			[]string{"--leader-elect"}, []string{"--leader-elect=true: outside a cluster, set --leader-election-namespace to the namespace of the lease"},
		},
		"an OperatorCondition of an unknown namespace": {
			[]string{"--operator-condition=candor.v0.1.0"}, []string{"--operator-condition=candor.v0.1.0: outside a cluster, set --pod-namespace to its namespace"},
		},
		"no workers":       {[]string{"--controller-report-max-concurrent=0"}, []string{"--controller-report-max-concurrent=0: " + workers}},
		"too many workers": {[]string{"--controller-suppression-max-concurrent=65"}, []string{"--controller-suppression-max-concurrent=65: " + workers}},
		"one controller is enough": {
			[]string{"--enable-report-controller=false", "--enable-finding-controller=false", "--enable-signalpolicy-controller=false"}, nil,
		},
		"nothing enabled": {
			off, []string{nothing},
		},
		"a poll without a pause":           {[]string{"--drift-interval=1ms"}, []string{"--drift-interval=1ms: must be 0, which never looks, or at least 1s"}},
		"collectors are always listed":     {[]string{"--collector-poll-interval=0"}, []string{"--collector-poll-interval=0s: must be at least 1s"}},
		"an unknown drift policy":          {[]string{"--pipeline-drift-policy=correct"}, []string{"--pipeline-drift-policy=correct: must be Correct, Warn or Ignore"}},
		"an unknown name scope":            {[]string{"--pipeline-name-scope=ns"}, []string{"--pipeline-name-scope=ns: must be none, namespace or cluster"}},
		"an unknown remote validation":     {[]string{"--webhook-remote-validate=on"}, []string{"--webhook-remote-validate=on: must be off, warn or enforce"}},
		"a known remote validation":        {[]string{"--webhook-remote-validate=enforce"}, nil},
		"pipelines of no bytes":            {[]string{"--max-pipeline-bytes=0"}, []string{"--max-pipeline-bytes=0: must be between 1 and 1048576"}},
		"values that the API refuses":      {[]string{"--attribute-value-max=1025"}, []string{"--attribute-value-max=1025: must be between 1 and 1024"}},
		"a network that is none":           {[]string{"--external-source-allow-cidrs=10.0.0.0/8,ten"}, []string{`--external-source-allow-cidrs=10.0.0.0/8,ten: allow: "ten" is not a CIDR: write an address and a length, such as 10.0.0.0/8 or fd00::/8`}},
		"a network that is none, to close": {[]string{"--external-source-deny-cidrs=10.0.0.1/8"}, []string{`--external-source-deny-cidrs=10.0.0.1/8: deny: "10.0.0.1/8" has bits beyond its length: write 10.0.0.0/8`}},
		"networks with blanks around them": {[]string{"--external-source-allow-cidrs= 10.0.0.0/8 , 127.0.0.0/8,", "--external-source-deny-cidrs=10.1.0.0/16"}, nil},
		"a selector that is none":          {[]string{"--external-source-secret-label-selector=a=b=c"}, []string{"--external-source-secret-label-selector=a=b=c: must be a label selector: found '=', expected: ',' or 'end of string'"}},
		"less than no fetches":             {[]string{"--controller-sync-target-rate=-1"}, []string{"--controller-sync-target-rate=-1: must be 0, which bounds nothing, or more"}},
		"a burst of none":                  {[]string{"--controller-sync-target-burst=0"}, []string{"--controller-sync-target-burst=0: must be at least 1"}},
		"workers by a shorter name":        {[]string{"--controller-sync-max-concurrent=65"}, []string{"--controller-sync-max-concurrent=65: must be between 1 and 64"}},
		"a rate of nothing is the default": {[]string{"--fleet-api-rps=0", "--fleet-api-burst=-1"}, nil},
		"everything at once": {
			append([]string{
				"--evidence-grace=25h", "--finding-retention=1s", "--webhook-port=-1", "--leader-election-renew-deadline=1h", "--controller-finding-max-concurrent=-1",
			}, off...),
			[]string{
				"--evidence-grace=25h0m0s: " + grace, "--finding-retention=1s: " + retention, "--webhook-port=-1: must be between 1 and 65535",
				lease("2m17s", "1h0m0s"), "--controller-finding-max-concurrent=-1: " + workers, nothing,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(nil, test.args...)
			if test.want == nil {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(strings.Join(test.want, "\n")))
		})
	}
}

func TestTheCredentialsOfFleetManagementComeFromTheEnvironment(t *testing.T) {
	g := NewWithT(t)
	options, err := read(map[string]string{
		"FLEET_MANAGEMENT_BASE_URL": "https://fleet.example.com", "FLEET_MANAGEMENT_USERNAME": "1", "FLEET_MANAGEMENT_PASSWORD": "secret\n",
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(options.Fleet.Environment).To(Equal(client.Credentials{BaseURL: "https://fleet.example.com", Username: "1", Password: "secret"}))
	g.Expect(fmt.Sprintf("%v %+v %#v", options, options, options)).NotTo(ContainSubstring("secret"))
	rps, burst := options.Fleet.rate()
	g.Expect([]float64{rps, float64(burst)}).To(Equal([]float64{3, 50}))
}

func TestParseReadsTheEnvironmentOfTheProcess(t *testing.T) {
	t.Setenv("CANDOR_EVIDENCE_GRACE", "5m")
	options, err := Parse([]string{"--finding-retention=1h"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect([]time.Duration{options.EvidenceGrace, options.FindingRetention}).To(Equal([]time.Duration{5 * time.Minute, time.Hour}))
}

func TestTheOperatorConditionIsTheOneThatOLMNames(t *testing.T) {
	const olm, own, namespace = "OPERATOR_CONDITION_NAME", "CANDOR_OPERATOR_CONDITION", "--pod-namespace=candor-system"
	for name, test := range map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"outside OLM":            {nil, nil, ""},
		"under OLM":              {map[string]string{olm: "candor.v0.1.0"}, nil, "candor.v0.1.0"},
		"a variable of Candor's": {map[string]string{olm: "candor.v0.1.0", own: "other"}, nil, "other"},
		"turned off":             {map[string]string{olm: "candor.v0.1.0"}, []string{"--operator-condition="}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			options, err := read(test.env, append(test.args, namespace)...)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(options.OperatorCondition).To(Equal(test.want))
		})
	}
}
