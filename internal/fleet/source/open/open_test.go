// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package open

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	httpsource "github.com/candor-dev/candor/internal/fleet/source/http"
	sqlsource "github.com/candor-dev/candor/internal/fleet/source/sql"
	"github.com/candor-dev/candor/internal/netguard"
)

func TestASpecAndItsSecretMakeASource(t *testing.T) {
	web := &fleetmanagementv1alpha1.HTTPSource{URL: "https://cmdb.example.com/hosts"}
	database := &fleetmanagementv1alpha1.SQLSource{Driver: "postgres", Query: "SELECT 1"}
	ref := &fleetmanagementv1alpha1.SecretReference{Name: "cmdb"}
	dsn := map[string][]byte{"dsn": []byte("postgres://u:hunter2@db.example.com/x")}
	for name, test := range map[string]struct {
		spec   fleetmanagementv1alpha1.ExternalSource
		secret map[string][]byte
		target string
		want   string
	}{
		"a server":                           {fleetmanagementv1alpha1.ExternalSource{HTTP: web}, nil, "https://cmdb.example.com:443", ""},
		"a server that wants a token":        {fleetmanagementv1alpha1.ExternalSource{HTTP: web, SecretRef: ref}, map[string][]byte{"bearer-token": []byte("hunter2")}, "https://cmdb.example.com:443", ""},
		"a server, with a Secret of no data": {fleetmanagementv1alpha1.ExternalSource{HTTP: web, SecretRef: ref}, nil, "", "the Secret needs the key bearer-token"},
		"a database":                         {fleetmanagementv1alpha1.ExternalSource{SQL: database, SecretRef: ref}, dsn, "sql:postgres@db.example.com:5432", ""},
		"a database without a Secret":        {fleetmanagementv1alpha1.ExternalSource{SQL: database}, dsn, "", "a database needs secretRef"},
		"neither":                            {fleetmanagementv1alpha1.ExternalSource{Kind: fleetmanagementv1alpha1.SourceHTTP}, nil, "", "source must have http or sql, as source.kind says"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			opener := &Opener{Guard: &netguard.Guard{}, Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))}
			s, target, err := opener.Open(test.spec, test.secret)
			if test.want != "" {
				g.Expect(err).To(MatchError(HavePrefix(test.want)))
				g.Expect(errors.As(err, new(*fault.Fault))).To(BeTrue())
				g.Expect(s).To(BeNil())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(target).To(Equal(test.target))
			if test.spec.HTTP != nil {
				g.Expect(s).To(BeAssignableToTypeOf(&httpsource.Source{}))
			} else {
				g.Expect(s).To(BeAssignableToTypeOf(&sqlsource.Source{}))
			}
			g.Expect(s.Close()).To(Succeed())
		})
	}
}
