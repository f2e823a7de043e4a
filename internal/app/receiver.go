// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	candorcontroller "github.com/candor-dev/candor/internal/controller/candor"
	"github.com/candor-dev/candor/internal/signals/receiver"
	"github.com/candor-dev/candor/internal/webhookcert"
)

const (
	flagReceiverPort        = "signal-receiver-port"
	flagReceiverCertificate = "signal-receiver-cert-path"

	// receiverDrain is how long requests may take to end when the manager stops. It is longer than the longest answer.
	receiverDrain = 35 * time.Second
	// receiverConnections is how many senders are connected at once. Those beyond wait: each takes memory before anybody knows who
	// it is.
	receiverConnections = 512
)

// ReceiverOptions are what a person can set about signals of other tools.
type ReceiverOptions struct {
	// Port is where signals come in; zero is nowhere.
	Port int
	// CertPath is the folder of tls.crt and tls.key; empty stands for the certificate of the webhooks.
	CertPath string
}

func (o *ReceiverOptions) addFlags(fs *flag.FlagSet) {
	fs.IntVar(&o.Port, flagReceiverPort, 0, "Port on which other tools post signals by HTTPS, such as 9444; 0 takes none.")
	fs.StringVar(&o.CertPath, flagReceiverCertificate, "", "Folder that holds tls.crt and tls.key for that port. When it is empty, the certificate of the admission webhooks is used.")
}

// validateReceiver asks for a certificate wherever there is a port.
func (o *Options) validateReceiver() error {
	r := o.Receiver
	if r.Port == 0 {
		return nil
	}
	var errs []error
	if r.Port < 0 || r.Port > 65535 {
		errs = append(errs, fmt.Errorf("--%s=%d: must be between 1 and 65535, or 0, which takes no signals", flagReceiverPort, r.Port))
	}
	if r.Port == o.WebhookPort {
		errs = append(errs, fmt.Errorf("--%s=%d: must be another port than --webhook-port", flagReceiverPort, r.Port))
	}
	if r.CertPath != "" {
		if info, err := os.Stat(r.CertPath); err != nil || !info.IsDir() {
			errs = append(errs, fmt.Errorf("--%s=%s: is no folder: mount tls.crt and tls.key there, or leave the flag empty", flagReceiverCertificate, r.CertPath))
		}
		return errors.Join(errs...)
	}
	if from, err := o.webhookCertificate(); err == nil && from.off() { // its error is reported for the webhooks
		errs = append(errs, fmt.Errorf("--%s=%d: signals come by HTTPS alone: set --%s, or --webhook-cert-path or --webhook-cert-secret, whose certificate is then used",
			flagReceiverPort, r.Port, flagReceiverCertificate))
	}
	return errors.Join(errs...)
}

// signalKeys returns what signals are authenticated by; nil where none are taken.
func (b *building) signalKeys() *candorcontroller.SignalKeys {
	if b.options.Receiver.Port == 0 {
		return nil
	}
	if b.keys == nil {
		b.keys = candorcontroller.NewSignalKeys(b.mgr.GetClient(), &candorcontroller.Secrets{Live: b.mgr.GetAPIReader(), Clock: b.parts.Clock})
	}
	return b.keys
}

// addReceiver adds, where there is a port, what takes signals of other tools. webhooks is the certificate that it serves with unless
// it has one of its own.
func (b *building) addReceiver(webhooks *webhookcert.Certificate) error {
	log, o := b.mgr.GetLogger().WithName("setup"), b.options.Receiver
	if o.Port == 0 {
		log.Info("Signals of other tools off", "because", "--"+flagReceiverPort+" is 0")
		return nil
	}
	certificate := webhooks
	if o.CertPath != "" {
		certificate = &webhookcert.Certificate{Clock: clock.RealClock{}, Announce: b.announceReceiver()}
		if err := b.mgr.Add(&webhookcert.Folder{Path: o.CertPath, Certificate: certificate}); err != nil {
			return fmt.Errorf("adding the certificate for signals: %w", err)
		}
	}
	metrics := receiver.NewMetrics()
	if err := register(b.parts.Registry, metrics.Collectors()); err != nil {
		return err
	}
	server := &signalServer{
		port: o.Port, tls: tlsOptions(b.options), http2: b.options.EnableHTTP2, certificate: certificate, log: b.mgr.GetLogger().WithName("signals"),
	}
	server.handler = receiver.New(receiver.Options{
		Keys: b.signalKeys(), Store: candorcontroller.NewSignalStore(b.mgr.GetClient(), b.mgr.GetAPIReader(), b.parts.Clock),
		Clock: b.parts.Clock, Metrics: metrics, Log: server.log,
		Refuse: func() <-chan time.Time { return time.After(receiver.RefusalTime) },
	})
	metrics.Watch(server.serving)
	if err := b.mgr.Add(server); err != nil {
		return fmt.Errorf("adding the receiver of signals: %w", err)
	}
	log.Info("Signals of other tools on", "port", o.Port)
	return nil
}

// announceReceiver tells the log of the certificate.
func (b *building) announceReceiver() func(error) {
	log := b.mgr.GetLogger().WithName("signals")
	return func(problem error) {
		if problem != nil {
			log.Error(problem, "Cannot keep the certificate for signals; trying again")
			return
		}
		log.Info("There is a certificate for signals")
	}
}

// signalServer takes signals on every replica.
type signalServer struct {
	port        int
	tls         []func(*tls.Config)
	http2       bool
	certificate *webhookcert.Certificate
	handler     http.Handler
	log         logr.Logger
	listening   atomic.Bool
}

var _ manager.LeaderElectionRunnable = (*signalServer)(nil)

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*signalServer) NeedLeaderElection() bool { return false }

// serving says whether signals can come in.
func (s *signalServer) serving() bool { return s.listening.Load() && s.certificate.Check(nil) == nil }

// Start implements manager.Runnable. It ends once the requests have been answered that came before ctx ended.
func (s *signalServer) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(s.port))
	if err != nil {
		return fmt.Errorf("--%s=%d: cannot listen: %w", flagReceiverPort, s.port, err)
	}
	return s.serve(ctx, listener)
}

func (s *signalServer) serve(ctx context.Context, listener net.Listener) error {
	server, drained := s.server(), make(chan error, 1)
	go func() {
		<-ctx.Done()
		s.listening.Store(false)
		draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), receiverDrain)
		defer cancel()
		drained <- server.Shutdown(draining)
	}()
	s.listening.Store(true)
	s.log.Info("Taking signals", "address", listener.Addr().String())
	if err := server.ServeTLS(netutil.LimitListener(listener, receiverConnections), "", ""); !errors.Is(err, http.ErrServerClosed) {
		s.listening.Store(false)
		return fmt.Errorf("taking signals: %w", err)
	}
	if err := <-drained; err != nil {
		s.log.Info("Some senders of signals have got no answer", "because", err.Error())
	}
	return nil
}

// server returns one whose limits leave a slow sender 15 seconds for its body, and the answer as many again.
func (s *signalServer) server() *http.Server {
	config := &tls.Config{GetCertificate: s.certificate.Get}
	for _, option := range s.tls {
		option(config)
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(s.http2)
	return &http.Server{
		Handler: s.handler, TLSConfig: config, Protocols: protocols,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(logr.ToSlogHandler(s.log.V(1)), slog.LevelInfo),
	}
}
