// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	candorcontroller "github.com/candor-dev/candor/internal/controller/candor"
	"github.com/candor-dev/candor/internal/netguard"
)

// NotifyOptions are what a person can set about telling people.
type NotifyOptions struct {
	// Window is how long an event waits for others to go with it.
	Window time.Duration
	// DigestInterval is how often a digest falls due; zero or less is never.
	DigestInterval time.Duration
	// AllowCIDRs and DenyCIDRs change which addresses may be dialled, separated by commas.
	AllowCIDRs, DenyCIDRs string
	// CABundle is a file of certificates to trust beside those of the system.
	CABundle string
}

const flagNotificationAllow = "notification-allow-cidrs"

func (o *NotifyOptions) addFlags(fs *flag.FlagSet) {
	fs.DurationVar(&o.Window, "notification-window", 30*time.Second, "How long an event waits for others to be told in one message, 0 to 10m. Twenty are told at once.")
	fs.DurationVar(&o.DigestInterval, "digest-interval", 24*time.Hour, "How often sinks are told in one message what changed, at least 1m; 0 never does.")
	fs.StringVar(&o.AllowCIDRs, flagNotificationAllow, "", "Networks that sinks may be in although they are private, link-local or reserved, such as that of the cluster's services, separated by commas.")
	fs.StringVar(&o.DenyCIDRs, "notification-deny-cidrs", "", "Networks that sinks must not be in, separated by commas. They win over --"+flagNotificationAllow+".")
	fs.StringVar(&o.CABundle, "notification-ca-bundle", "", "File of PEM certificates that sinks are trusted by, beside those of the system.")
}

func (o *NotifyOptions) validate() error {
	var errs []error
	if o.Window < 0 || o.Window > 10*time.Minute {
		errs = append(errs, fmt.Errorf("--notification-window=%s: must be between 0 and 10m", o.Window))
	}
	if o.DigestInterval > 0 && o.DigestInterval < time.Minute {
		errs = append(errs, fmt.Errorf("--digest-interval=%s: must be 0, which never tells, or at least 1m", o.DigestInterval))
	}
	_, _, err := o.client()
	return errors.Join(append(errs, err)...)
}

// client returns what sends requests to sinks, and what judges their addresses.
func (o *NotifyOptions) client() (*http.Client, *netguard.Guard, error) {
	out := outbound{prefix: "notification", profile: netguard.Tenant, allow: o.AllowCIDRs, deny: o.DenyCIDRs, bundle: o.CABundle}
	guard, err := out.guard()
	if err != nil {
		return nil, nil, err
	}
	client, err := out.client(guard, candorcontroller.MaxSinkAnswer)
	return client, guard, err
}

// addNotifier adds, once, what tells people.
func (b *building) addNotifier() error {
	if b.notifier != nil {
		return nil
	}
	client, guard, err := b.options.Notify.client()
	if err != nil {
		return err
	}
	n := &candorcontroller.Notifier{
		Client: b.mgr.GetClient(), Secrets: &candorcontroller.Secrets{Live: b.mgr.GetAPIReader(), Clock: b.parts.Clock}, Ledger: b.ledger,
		Clock: b.parts.Clock, Metrics: b.metrics, HTTP: client, Guard: guard, AllowSetting: EnvName(flagNotificationAllow),
		Window: b.options.Notify.Window, DigestInterval: max(0, b.options.Notify.DigestInterval), Timeout: b.parts.SinkTimeout,
	}
	if b.options.Controllers["finding"].Enabled {
		b.toldFindings = make(chan event.GenericEvent)
		n.WakeFindings = b.toldFindings
	}
	if b.options.Controllers["signalpolicy"].Enabled {
		b.toldPolicies = make(chan event.GenericEvent)
		n.WakePolicies = b.toldPolicies
	}
	b.notifier = n.Init()
	if err := b.mgr.Add(b.notifier); err != nil {
		return fmt.Errorf("adding what tells people: %w", err)
	}
	return nil
}
