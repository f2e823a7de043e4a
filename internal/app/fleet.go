// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/client"
)

// FleetOptions are what a person can set about Grafana Fleet Management.
type FleetOptions struct {
	// CredentialsFolder is where the Secret candor-fleet is mounted. Its files are read for each request, since they are renewed
	// in place.
	CredentialsFolder string
	// CAFile holds certificates to trust beside those of the system.
	CAFile string
	// RPS and Burst bound the requests of all controllers together.
	RPS   float64
	Burst int
	// DriftInterval is how often all pipelines are listed; zero never does.
	DriftInterval time.Duration
	// DriftPolicy is that of Pipelines that have none.
	DriftPolicy string
	// NameScope is what the names of pipelines start with.
	NameScope string
	// ClusterID tells this cluster from others that use the same stack; empty takes the UID of the namespace kube-system.
	ClusterID string
	// GCOrphans deletes pipelines of this cluster whose objects are gone.
	GCOrphans bool
	// MaxPipelineBytes bounds the contents of a Pipeline.
	MaxPipelineBytes int
	// WebhookRemoteValidate says whether the webhook of Pipelines asks Fleet Management, and what becomes of a refusal: remoteOff,
	// remoteWarn or remoteEnforce.
	WebhookRemoteValidate string
	// ValidateBeforeApply has Fleet Management check contents before they are written.
	ValidateBeforeApply bool
	// CollectorPollInterval is how often all collectors are listed.
	CollectorPollInterval time.Duration
	// AttributeValueMax bounds the value of a remote attribute, in characters.
	AttributeValueMax int
	// EnforceTenantPolicies refuses what TenantPolicies do not allow.
	EnforceTenantPolicies bool
	// AuthorizeDiscoveries refuses discoveries into namespaces where their author could not create what they make.
	AuthorizeDiscoveries bool

	// Sources is what is set about the sources of ExternalAttributeSyncs.
	Sources SourceOptions

	// Environment are the credentials of the environment, for where the folder holds none.
	Environment client.Credentials
}

const (
	defaultFleetRPS   = 3
	defaultFleetBurst = 50
)

// Values of --webhook-remote-validate.
const (
	remoteOff     = "off"
	remoteWarn    = "warn"
	remoteEnforce = "enforce"
)

func (o *FleetOptions) addFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.CredentialsFolder, "fleet-credentials-folder", "/etc/candor/fleet", "Folder of the files base-url, username and password, read for each request. The variables FLEET_MANAGEMENT_BASE_URL, FLEET_MANAGEMENT_USERNAME and FLEET_MANAGEMENT_PASSWORD serve where it holds none of them.")
	fs.StringVar(&o.CAFile, "fleet-ca-file", "", "File of PEM certificates that Fleet Management is trusted by, beside those of the system.")
	fs.Float64Var(&o.RPS, "fleet-api-rps", defaultFleetRPS, "Requests a second to Fleet Management at most, of all controllers together, and never more than 80 % of what Fleet Management says that the stack is granted; 0 or less is the default.")
	fs.IntVar(&o.Burst, "fleet-api-burst", defaultFleetBurst, "How many such requests may come at once; 0 or less is the default.")
	fs.DurationVar(&o.DriftInterval, "drift-interval", 5*time.Minute, "How often all pipelines are listed to find what somebody else changed, at least 1s; 0 never looks.")
	fs.StringVar(&o.DriftPolicy, "pipeline-drift-policy", string(fleetmanagementv1alpha1.DriftCorrect), "What to do about that where a Pipeline does not say: Correct, Warn or Ignore.")
	fs.StringVar(&o.NameScope, "pipeline-name-scope", fleetmanagementv1alpha1.NameScopeNone, "What the names of pipelines in Fleet Management start with: none, namespace, or cluster (its ID and the namespace).")
	fs.StringVar(&o.ClusterID, "cluster-id", "", "What tells this cluster from others that use the same stack; by default the UID of the namespace kube-system.")
	fs.BoolVar(&o.GCOrphans, "gc-orphans", false, "Delete pipelines that this cluster created and whose objects are gone.")
	fs.IntVar(&o.MaxPipelineBytes, "max-pipeline-bytes", 512<<10, "Longest contents of a Pipeline that the webhook lets pass, in bytes, 1 to 1048576.")
	fs.StringVar(&o.WebhookRemoteValidate, "webhook-remote-validate", remoteOff, "Whether the webhook of Pipelines asks Fleet Management, for 2s at most, about what is new or changed: off, warn (what is refused passes with a warning) or enforce (it is refused). Without an answer it passes with a warning.")
	fs.BoolVar(&o.ValidateBeforeApply, "validate-before-apply", false, "Have Fleet Management check contents by a request of its own before they are written, and write nothing that it refuses.")
	fs.DurationVar(&o.CollectorPollInterval, "collector-poll-interval", 2*time.Minute, "How often all collectors are listed, at least 1s.")
	fs.IntVar(&o.AttributeValueMax, "attribute-value-max", 150, "Longest value of a remote attribute, in characters, 1 to 1024.")
	fs.BoolVar(&o.EnforceTenantPolicies, "enable-tenant-policy-enforcement", false, "Refuse what TenantPolicies do not allow: in the webhooks by who asks, and in a namespace that a spec.namespaceSelector selects whatever is stored there.")
	fs.BoolVar(&o.AuthorizeDiscoveries, "enforce-cross-namespace-discovery-authz", false, "Have the webhooks refuse a discovery whose spec.targetNamespace is another namespace unless its author may create there what it makes.")
	o.Sources.addFlags(fs)
}

// readCredentials takes the credentials of the environment.
func (o *FleetOptions) readCredentials(lookup func(string) (string, bool)) {
	get := func(name string) string {
		value, _ := lookup(name)
		return strings.TrimSpace(value)
	}
	o.Environment = client.Credentials{
		BaseURL: get("FLEET_MANAGEMENT_BASE_URL"), Username: get("FLEET_MANAGEMENT_USERNAME"), Password: get("FLEET_MANAGEMENT_PASSWORD"),
	}
}

func (o *FleetOptions) validate() error {
	var errs []error
	bad := func(name string, value any, want string) {
		errs = append(errs, fmt.Errorf("--%s=%v: %s", name, value, want))
	}
	if o.DriftInterval != 0 && o.DriftInterval < time.Second {
		bad("drift-interval", o.DriftInterval, "must be 0, which never looks, or at least 1s")
	}
	if o.CollectorPollInterval < time.Second {
		bad("collector-poll-interval", o.CollectorPollInterval, "must be at least 1s")
	}
	switch fleetmanagementv1alpha1.DriftPolicy(o.DriftPolicy) {
	case fleetmanagementv1alpha1.DriftCorrect, fleetmanagementv1alpha1.DriftWarn, fleetmanagementv1alpha1.DriftIgnore:
	default:
		bad("pipeline-drift-policy", o.DriftPolicy, "must be Correct, Warn or Ignore")
	}
	switch o.NameScope {
	case fleetmanagementv1alpha1.NameScopeNone, fleetmanagementv1alpha1.NameScopeNamespace, fleetmanagementv1alpha1.NameScopeCluster:
	default:
		bad("pipeline-name-scope", o.NameScope, "must be none, namespace or cluster")
	}
	switch o.WebhookRemoteValidate {
	case remoteOff, remoteWarn, remoteEnforce:
	default:
		bad("webhook-remote-validate", o.WebhookRemoteValidate, "must be off, warn or enforce")
	}
	if o.MaxPipelineBytes < 1 || o.MaxPipelineBytes > 1<<20 {
		bad("max-pipeline-bytes", o.MaxPipelineBytes, "must be between 1 and 1048576")
	}
	if o.AttributeValueMax < 1 || o.AttributeValueMax > 1024 {
		bad("attribute-value-max", o.AttributeValueMax, "must be between 1 and 1024")
	}
	_, err := o.bundle()
	return errors.Join(append(errs, err, o.Sources.validate())...)
}

// rate returns the requests a second, and how many may come at once.
func (o *FleetOptions) rate() (rps float64, burst int) {
	rps, burst = o.RPS, o.Burst
	if rps <= 0 {
		rps = defaultFleetRPS
	}
	if burst <= 0 {
		burst = defaultFleetBurst
	}
	return rps, burst
}

// bundle returns the content of CAFile, nil where there is none.
func (o *FleetOptions) bundle() ([]byte, error) {
	if o.CAFile == "" {
		return nil, nil
	}
	content, err := os.ReadFile(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--fleet-ca-file: %w", err)
	}
	return content, nil
}
