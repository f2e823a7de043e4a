// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package pipelines

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
)

// Keys of the stamp in a pipeline's metadata.
const (
	stampManagedBy = "k8s.managed-by"
	stampCluster   = "k8s.cluster"
	stampNamespace = "k8s.namespace"
	stampName      = "k8s.name"
	stampUID       = "k8s.uid"
	stampHash      = "k8s.spec-hash"
	// stampAdopted stands on a pipeline that existed before its object. The status says the same, and may be lost.
	stampAdopted = "k8s.adopted"

	managedBy   = "candor"
	adoptedTrue = "true"
)

var stampKeys = []string{stampManagedBy, stampCluster, stampNamespace, stampName, stampUID, stampHash, stampAdopted}

// Owner is an object of a cluster. Its stamp stands in the metadata of the pipelines that are its own.
type Owner struct {
	Cluster, Namespace, Name string
	UID                      types.UID
}

// String returns namespace and name.
func (o Owner) String() string { return o.Namespace + "/" + o.Name }

// StampOf returns whose stamp a pipeline carries. One of another tool that marks its pipelines in the same way is a stamp, too.
func StampOf(p fleetclient.Pipeline) (Owner, bool) {
	text := func(key string) string {
		value, _ := p.Metadata[key].(string)
		return value
	}
	owner := Owner{Cluster: text(stampCluster), Namespace: text(stampNamespace), Name: text(stampName), UID: types.UID(text(stampUID))}
	return owner, owner.Cluster != "" || owner.UID != "" || text(stampManagedBy) != ""
}

// Owns reports whether a pipeline carries this owner's stamp. Namespace and name do not count: the UID says it all.
func (o Owner) Owns(p fleetclient.Pipeline) bool {
	owner, is := StampOf(p)
	return is && owner.Cluster == o.Cluster && owner.UID == o.UID
}

// IsAdopted reports whether the stamp of a pipeline says that the pipeline existed before its object.
func IsAdopted(p fleetclient.Pipeline) bool { return p.Metadata[stampAdopted] == adoptedTrue }

// stamped returns metadata that carries the owner's stamp and keeps what others wrote into it.
func stamped(metadata map[string]any, owner Owner, hash string, adopted bool) map[string]any {
	all := maps.Clone(metadata)
	if all == nil {
		all = map[string]any{}
	}
	all[stampManagedBy], all[stampCluster], all[stampNamespace] = managedBy, owner.Cluster, owner.Namespace
	all[stampName], all[stampUID], all[stampHash] = owner.Name, string(owner.UID), hash
	delete(all, stampAdopted)
	if adopted {
		all[stampAdopted] = adoptedTrue
	}
	return all
}

// Released returns a pipeline without the stamp that it carries.
func Released(p fleetclient.Pipeline) fleetclient.Pipeline {
	p.Metadata = maps.Clone(p.Metadata)
	for _, key := range stampKeys {
		delete(p.Metadata, key)
	}
	return p
}
