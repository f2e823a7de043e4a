// Package v1 stands in for the Ansible plugin that operator-sdk imports: its module is not on every proxy, and Candor has no use for it.
package v1

import (
	"sigs.k8s.io/kubebuilder/v4/pkg/config"
	cfgv3 "sigs.k8s.io/kubebuilder/v4/pkg/config/v3"
	"sigs.k8s.io/kubebuilder/v4/pkg/plugin"
)

// Plugin is an Ansible plugin that offers no command.
type Plugin struct{}

// Name returns the name under which operator-sdk registers the plugin.
func (Plugin) Name() string { return "base.ansible.sdk.operatorframework.io" }

// Version returns the plugin's version.
func (Plugin) Version() plugin.Version { return plugin.Version{Number: 1} }

// SupportedProjectVersions returns the project versions that the plugin accepts.
func (Plugin) SupportedProjectVersions() []config.Version { return []config.Version{cfgv3.Version} }
