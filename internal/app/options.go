// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app puts Candor together: options, manager, and the table of what runs in it.
package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Version is set when a release is built.
var Version = "development"

// envPrefix starts the name of the environment variable of each flag, since a Subscription can set variables but no flags.
const envPrefix = "CANDOR_"

// olmConditionVariable is set by OLM in every pod of an operator.
const olmConditionVariable = "OPERATOR_CONDITION_NAME"

// flagVersion has no environment variable: CANDOR_VERSION in a pod is likelier to tell a version than to ask for it.
const flagVersion = "version"

// Options is everything that a person can set about the manager.
type Options struct {
	LeaderElect             bool
	LeaderElectionNamespace string
	LeaseDuration           time.Duration
	RenewDeadline           time.Duration
	RetryPeriod             time.Duration

	MetricsBindAddress     string
	MetricsSecure          bool
	HealthProbeBindAddress string
	PprofBindAddress       string
	EnableHTTP2            bool

	WebhookPort          int
	WebhookCertPath      string
	WebhookCertName      string
	WebhookCertKey       string
	WebhookCertSecret    string
	WebhookService       string
	WebhookConfiguration string

	// PodNamespace, PodName and PodUID are what the manager is told of its own pod; each may be empty.
	PodNamespace string
	PodName      string
	PodUID       string

	// OperatorCondition is the name of the object by which OLM is told when the manager may be replaced; empty outside OLM.
	OperatorCondition string

	// EvidenceGrace is how long missing evidence changes nothing.
	EvidenceGrace time.Duration
	// FindingRetention is how long a Finding outlives its end; zero keeps it.
	FindingRetention time.Duration

	// Models is what is set about language models.
	Models ModelOptions

	// Notify is what is set about telling people.
	Notify NotifyOptions

	// Receiver is what is set about signals of other tools.
	Receiver ReceiverOptions

	// Fleet is what is set about Grafana Fleet Management.
	Fleet FleetOptions

	// Tracing says that spans are wanted.
	Tracing bool

	// Controllers holds what is set about each row of the table of setups, by name.
	Controllers map[string]*ControllerOptions

	// UnknownVariables are environment variables that look like those of flags and are not.
	UnknownVariables []string

	// PrintVersion asks for the version and nothing else.
	PrintVersion bool

	// Preview asks for what a model would be sent about this Finding, and for nothing else.
	Preview types.NamespacedName

	zap zap.Options
	// olmFolder is where OLM mounts the certificate that it makes.
	olmFolder string
}

// ControllerOptions is what a person can set about one controller.
type ControllerOptions struct {
	Enabled bool
	Workers int
}

// DefaultOptions returns the options of a manager that nobody has set anything about.
func DefaultOptions() Options {
	options := Options{}
	options.addFlags(flag.NewFlagSet("", flag.ContinueOnError))
	return options
}

// Parse reads options from the environment and then from arguments, which win. An error names the flag or the variable, its
// value, and what would be right.
func Parse(args []string) (Options, error) {
	return parse(args, os.Environ(), os.Stderr)
}

func parse(args, environ []string, help io.Writer) (Options, error) {
	lookup := lookupIn(environ)
	var options Options
	fs := flag.NewFlagSet("candor", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	options.addFlags(fs)
	config.RegisterFlags(fs)
	options.UnknownVariables = unknownVariables(fs, environ)
	if name, set := lookup(olmConditionVariable); set {
		options.OperatorCondition = name
	}
	options.Models.readKeys(lookup)
	options.Fleet.readCredentials(lookup)
	options.Tracing = readTracing(lookup)
	if err := applyEnv(fs, lookup); err != nil {
		return options, err
	}
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(help)
		fs.PrintDefaults()
		return options, flag.ErrHelp
	} else if err != nil {
		return options, explain(fs, err)
	}
	if err := options.parseCommand(fs.Args()); err != nil {
		return options, err
	}
	return options, options.Validate()
}

func (o *Options) addFlags(fs *flag.FlagSet) {
	fs.BoolVar(&o.PrintVersion, flagVersion, false, "Print the version and exit.")
	fs.BoolVar(&o.LeaderElect, "leader-elect", false, "Let only one replica work at a time.")
	fs.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "", "Namespace of the lease; in a cluster, that of the pod.")
	fs.DurationVar(&o.LeaseDuration, "leader-election-lease-duration", 137*time.Second, "How long other replicas wait before they take over a lease that is not renewed.")
	fs.DurationVar(&o.RenewDeadline, "leader-election-renew-deadline", 107*time.Second, "How long the leader tries to renew its lease before it stops.")
	fs.DurationVar(&o.RetryPeriod, "leader-election-retry-period", 26*time.Second, "How long to wait between tries.")
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", "0", "Address of the metrics endpoint, such as :8443; 0 turns it off.")
	fs.BoolVar(&o.MetricsSecure, "metrics-secure", true, "Serve metrics by HTTPS, to those who may get /metrics.")
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":8081", "Address of /healthz and /readyz; 0 turns them off.")
	fs.StringVar(&o.PprofBindAddress, "pprof-bind-address", "0", "Address of /debug/pprof, such as 127.0.0.1:6060; 0 turns it off. It asks nobody for a right.")
	fs.IntVar(&o.WebhookPort, "webhook-port", 9443, "Port of the admission webhooks.")
	fs.StringVar(&o.WebhookCertPath, "webhook-cert-path", "", "Folder that holds tls.crt and tls.key for the admission webhooks. When it is empty, that of OLM is used if it holds a certificate.")
	fs.StringVar(&o.WebhookCertName, "webhook-cert-name", "tls.crt", "File of the certificate in that folder.")
	fs.StringVar(&o.WebhookCertKey, "webhook-cert-key", "tls.key", "File of the key in that folder.")
	fs.StringVar(&o.WebhookCertSecret, "webhook-cert-secret", "", "Secret of the pod's namespace in which the manager keeps a certificate for the admission webhooks that it makes itself; empty makes none.")
	fs.StringVar(&o.WebhookService, "webhook-service", "candor-webhook-service", "Service of the admission webhooks, for the certificate that the manager makes.")
	fs.StringVar(&o.WebhookConfiguration, "webhook-configuration", "candor-validating-webhook-configuration", "ValidatingWebhookConfiguration that is to trust the certificate that the manager makes.")
	fs.StringVar(&o.PodNamespace, "pod-namespace", "", "Namespace of the manager's pod; in a cluster, it is known.")
	fs.StringVar(&o.PodName, "pod-name", "", "Name of the manager's pod, for events on it; empty records none.")
	fs.StringVar(&o.PodUID, "pod-uid", "", "UID of the manager's pod, for events on it.")
	fs.StringVar(&o.OperatorCondition, "operator-condition", "", "OperatorCondition of the pod's namespace that tells OLM when the manager may be replaced; by default what OLM itself sets, "+olmConditionVariable+".")
	fs.BoolVar(&o.EnableHTTP2, "enable-http2", false, "Serve HTTP/2 on the ports of metrics, webhooks and signals.")
	fs.DurationVar(&o.EvidenceGrace, "evidence-grace", 2*time.Hour, "How long a missing report changes nothing, 0 to 24h. After that its Finding is Stale.")
	fs.DurationVar(&o.FindingRetention, "finding-retention", 30*24*time.Hour, "How long a Finding is kept after its end, at least 1m; 0 keeps it.")
	o.Models.addFlags(fs)
	o.Notify.addFlags(fs)
	o.Receiver.addFlags(fs)
	o.Fleet.addFlags(fs)
	o.olmFolder = olmFolder
	o.Controllers = map[string]*ControllerOptions{}
	for _, s := range setups() {
		c := &ControllerOptions{}
		o.Controllers[s.name] = c
		fs.BoolVar(&c.Enabled, "enable-"+s.name+"-controller", true, "Run the "+s.name+" controller: "+s.does+".")
		fs.IntVar(&c.Workers, s.workersFlag(), s.workers, "How many objects the "+s.name+" controller works on at once, 1 to 64.")
	}
	o.zap.BindFlags(fs)
}

// lookupIn returns a function like os.LookupEnv.
func lookupIn(environ []string) func(string) (string, bool) {
	variables := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		variables[name] = value
	}
	return func(name string) (string, bool) {
		value, set := variables[name]
		return value, set
	}
}

// EnvName returns the environment variable that means the same as a flag.
func EnvName(flagName string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

func applyEnv(fs *flag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	fs.VisitAll(func(f *flag.Flag) {
		value, set := lookup(EnvName(f.Name))
		if !set || f.Name == flagVersion {
			return
		}
		if err := f.Value.Set(value); err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s: %q is not %s: %s", EnvName(f.Name), value, wanted(f.Value), f.Usage))
		}
	})
	return errors.Join(errs...)
}

// wanted names what a flag takes.
func wanted(value flag.Value) string {
	getter, ok := value.(flag.Getter)
	if !ok {
		return "right"
	}
	switch getter.Get().(type) {
	case bool:
		return "true or false"
	case time.Duration:
		return "a duration such as 90s or 2h"
	case int:
		return "a whole number"
	case float64:
		return "a number"
	default:
		return "right"
	}
}

// unknownVariables returns the names that look like those of flags and are not.
func unknownVariables(fs *flag.FlagSet, environ []string) []string {
	known := map[string]bool{EnvName(flagVersion): true}
	fs.VisitAll(func(f *flag.Flag) { known[EnvName(f.Name)] = true })
	var unknown []string
	for _, variable := range environ {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, envPrefix) && !known[name] {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

var namedFlag = regexp.MustCompile(`for (?:boolean )?(?:flag )?-([a-z0-9-]+)`)

// explain adds to an error of the flag package what would be right.
func explain(fs *flag.FlagSet, err error) error {
	if match := namedFlag.FindStringSubmatch(err.Error()); match != nil {
		if f := fs.Lookup(match[1]); f != nil {
			return fmt.Errorf("%w. --%s: %s Default: %s", err, f.Name, f.Usage, f.DefValue)
		}
	}
	return fmt.Errorf("%w; --help lists every flag", err)
}

// Validate returns every mistake in the options.
func (o *Options) Validate() error {
	var errs []error
	bad := func(name string, value any, want string) {
		errs = append(errs, fmt.Errorf("--%s=%v: %s", name, value, want))
	}
	if o.EvidenceGrace < 0 || o.EvidenceGrace > 24*time.Hour {
		bad("evidence-grace", o.EvidenceGrace, "must be between 0 and 24h")
	}
	if o.FindingRetention != 0 && o.FindingRetention < time.Minute {
		bad("finding-retention", o.FindingRetention, "must be 0, which keeps Findings, or at least 1m")
	}
	if o.WebhookPort < 1 || o.WebhookPort > 65535 {
		bad("webhook-port", o.WebhookPort, "must be between 1 and 65535")
	}
	if o.LeaseDuration < time.Second || o.RenewDeadline >= o.LeaseDuration {
		bad("leader-election-lease-duration", o.LeaseDuration, fmt.Sprintf(
			"must be at least 1s and longer than --leader-election-renew-deadline=%s", o.RenewDeadline))
	}
	if o.RetryPeriod <= 0 || float64(o.RenewDeadline) <= leaderelection.JitterFactor*float64(o.RetryPeriod) {
		bad("leader-election-retry-period", o.RetryPeriod, fmt.Sprintf(
			"must be positive, and %.1f times as long still shorter than --leader-election-renew-deadline=%s", leaderelection.JitterFactor, o.RenewDeadline))
	}
	if o.LeaderElect && o.leaseNamespace() == "" {
		bad("leader-elect", true, "outside a cluster, set --leader-election-namespace to the namespace of the lease")
	}
	if o.OperatorCondition != "" && o.podNamespace() == "" {
		bad("operator-condition", o.OperatorCondition, "outside a cluster, set --pod-namespace to its namespace")
	}
	_, err := o.webhookCertificate()
	return errors.Join(append(errs, err, o.Models.validate(), o.Notify.validate(), o.validateReceiver(), o.Fleet.validate(), o.validateControllers())...)
}

func (o *Options) validateControllers() error {
	var errs []error
	enabled := false
	for _, s := range setups() {
		c := o.Controllers[s.name]
		enabled = enabled || o.offBecause(s) == ""
		if c.Workers < 1 || c.Workers > 64 {
			errs = append(errs, fmt.Errorf("--%s=%d: must be between 1 and 64", s.workersFlag(), c.Workers))
		}
	}
	if !enabled {
		errs = append(errs, errors.New("every controller is turned off, so there is nothing to do: set --enable-…-controller of one"))
	}
	return errors.Join(errs...)
}

// Logger returns the logger that the options ask for.
func (o *Options) Logger() logr.Logger { return zap.New(zap.UseFlagOptions(&o.zap)) }

// Flags calls visit for every flag, in the order of their names.
func Flags(visit func(*flag.Flag)) {
	fs := flag.NewFlagSet("candor", flag.ContinueOnError)
	var options Options
	options.addFlags(fs)
	config.RegisterFlags(fs)
	fs.VisitAll(visit)
}
