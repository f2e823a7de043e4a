// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extsync decides for an ExternalAttributeSync when records are fetched, what they come to, and whether that may be applied.
package extsync

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	_ "time/tzdata" // the zones of the world, for where the system has none

	"github.com/robfig/cron/v3"
)

const (
	// MinInterval is the least time between two fetches that a schedule asks for, and the first wait after one that failed.
	MinInterval = 30 * time.Second
	// maxInterval is the most: a mistake rather than a wish.
	maxInterval = 10 * never
	// jitterShare is the share of an interval by which fetches are moved, one in so many.
	jitterShare = 10
	// maxLate bounds how much later than a cron expression says a fetch comes.
	maxLate = 30 * time.Second
	// never is when an expression comes next that does not come within the years that are searched.
	never = 365 * 24 * time.Hour
)

var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Schedule says when records are fetched. The zero value is none; ParseSchedule makes one.
type Schedule struct {
	// every is zero for a cron expression.
	every time.Duration
	cron  cron.Schedule
	zone  *time.Location
}

// ParseSchedule reads a duration of at least MinInterval and at most ten years, or a cron expression of five fields and the zone that it is read in, empty for
// UTC. The expression may name its zone itself, as CRON_TZ=Europe/Berlin in front. The error names the field: schedule or timeZone.
func ParseSchedule(schedule, zone string) (Schedule, error) {
	text := strings.TrimSpace(schedule)
	if first, rest, named := strings.Cut(text, " "); named {
		inline, isZone := strings.CutPrefix(strings.TrimPrefix(first, "CRON_"), "TZ=")
		switch {
		case isZone && zone != "":
			return Schedule{}, errors.New("schedule: it names a zone, and so does timeZone: leave out one of the two")
		case isZone:
			text, zone = strings.TrimSpace(rest), inline
		}
	}
	location, err := loadZone(zone)
	if err != nil {
		return Schedule{}, err
	}
	if every, err := time.ParseDuration(text); err == nil {
		if every < MinInterval {
			return Schedule{}, fmt.Errorf("schedule: %q is too short: it must be at least %s", text, MinInterval)
		}
		if every > maxInterval {
			return Schedule{}, fmt.Errorf("schedule: %q is too long: it must be at most ten years, 87600h", text)
		}
		return Schedule{every: every, zone: location}, nil
	}
	if len(strings.Fields(text)) != 5 || strings.Contains(text, "TZ=") {
		return Schedule{}, fmt.Errorf("schedule: %q is neither a duration such as 10m nor a cron expression of five fields such as 0 * * * *", text)
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule: %q is no cron expression of five fields: %w", text, err)
	}
	s := Schedule{cron: parsed, zone: location}
	if s.start(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Schedule{}, fmt.Errorf("schedule: %q names a day that never comes", text)
	}
	return s, nil
}

func loadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || zone == time.Local {
		return nil, fmt.Errorf("timeZone: %q is not known: it must be a name such as Europe/Berlin, or empty for UTC", name)
	}
	return zone, nil
}

// Next is when the fetch after that of last is due. Objects with the same schedule are not due at once: an interval is up to a tenth
// longer or shorter, and the time of a cron expression up to 30 seconds, or a tenth of the time to the one after it, later. By how
// much follows from uid and last alone, so that each process says the same.
func (s Schedule) Next(last time.Time, uid string) time.Time {
	if s.cron == nil {
		span := s.every / jitterShare
		return last.Add(s.every - span + part(2*span, last, uid)).Truncate(time.Second)
	}
	start, gap := s.upcoming(last)
	return start.Add(part(min(maxLate, gap/jitterShare), start, uid)).Truncate(time.Second).UTC()
}

// Interval is the time between two fetches, as it is at a given time.
func (s Schedule) Interval(at time.Time) time.Duration {
	if s.cron == nil {
		return s.every
	}
	_, gap := s.upcoming(at)
	return gap
}

// upcoming is when the expression comes next after a given time, and how long after that it comes again.
func (s Schedule) upcoming(after time.Time) (start time.Time, gap time.Duration) {
	if start = s.start(after); start.IsZero() {
		return after.Add(never), never
	}
	if following := s.start(start); !following.IsZero() {
		return start, following.Sub(start)
	}
	return start, never
}

func (s Schedule) start(after time.Time) time.Time { return s.cron.Next(after.In(s.zone)) }

// part is a part of span that looks random and is always the same for the same time and UID.
func part(span time.Duration, at time.Time, uid string) time.Duration {
	if span <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint64([]byte(uid), uint64(at.Unix()))) //nolint:gosec // any 64 bits serve
	return time.Duration(mix(h.Sum64()) % uint64(span))
}

// mix spreads what the last bytes of a hash's input change over all of its bits.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}

// Backoff is how long to wait after so many failures in a row: 30 seconds after the first, twice as long after each further one, and
// never longer than the interval unless that is shorter than 30 seconds.
func Backoff(failures int, interval time.Duration) time.Duration {
	limit, wait := max(interval, MinInterval), MinInterval
	for range failures - 1 {
		if wait >= limit {
			break
		}
		wait *= 2
	}
	return min(wait, limit)
}
