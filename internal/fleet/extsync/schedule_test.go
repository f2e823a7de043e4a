// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package extsync

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestWhatIsASchedule(t *testing.T) {
	for name, test := range map[string]struct {
		schedule, zone string
		// wrong is a part of the error; empty for none.
		wrong string
	}{
		"the shortest duration":                     {schedule: "30s"},
		"a duration with blanks around it":          {schedule: " 10m "},
		"one of several units":                      {schedule: "1h30m"},
		"a duration that is too short":              {schedule: "29s", wrong: `schedule: "29s" is too short: it must be at least 30s`},
		"no time at all":                            {schedule: "0s", wrong: "at least 30s"},
		"a negative duration (B25)":                 {schedule: "-10m", wrong: "at least 30s"},
		"a nanosecond (B25)":                        {schedule: "1ns", wrong: "at least 30s"},
		"a duration without a unit":                 {schedule: "600", wrong: "neither a duration such as 10m nor a cron expression"},
		"ten years":                                 {schedule: "87600h"},
		"a duration that no time can be added to":   {schedule: "2562047h", wrong: "it must be at most ten years"},
		"five fields":                               {schedule: "*/5 8-18 * * MON-FRI"},
		"five fields in a zone":                     {schedule: "0 3 * * *", zone: "Europe/Berlin"},
		"a zone in the expression":                  {schedule: "CRON_TZ=Europe/Berlin 0 3 * * *"},
		"the same in its older spelling":            {schedule: "TZ=Asia/Kolkata 0 3 * * *"},
		"two zones":                                 {schedule: "TZ=Asia/Kolkata 0 3 * * *", zone: "Europe/Berlin", wrong: "leave out one of the two"},
		"a zone and nothing else":                   {schedule: "TZ=UTC", wrong: "five fields"},
		"a zone in the wrong place":                 {schedule: "0 3 * * TZ=UTC", wrong: "five fields"},
		"two zones in one expression":               {schedule: "TZ=UTC TZ=UTC 3 * * *", wrong: "five fields"},
		"six fields":                                {schedule: "0 0 3 * * *", wrong: "five fields"},
		"four fields":                               {schedule: "0 3 * *", wrong: "five fields"},
		"a word":                                    {schedule: "@hourly", wrong: "five fields"},
		"a word with a duration":                    {schedule: "@every 10m", wrong: "five fields"},
		"an hour that no day has":                   {schedule: "0 24 * * *", wrong: "no cron expression"},
		"a step of nothing":                         {schedule: "*/0 * * * *", wrong: "no cron expression"},
		"the 30th of February":                      {schedule: "0 0 30 2 *", wrong: "a day that never comes"},
		"the 29th of February":                      {schedule: "0 0 29 2 *"},
		"nothing":                                   {wrong: "schedule"},
		"a zone that is not known":                  {schedule: "10m", zone: "Europe/Bonn", wrong: `timeZone: "Europe/Bonn" is not known`},
		"the zone of the machine":                   {schedule: "10m", zone: "Local", wrong: `timeZone: "Local" is not known`},
		"a zone that leads out of the folder of it": {schedule: "10m", zone: "../etc/passwd", wrong: "is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, err := ParseSchedule(test.schedule, test.zone)
			if test.wrong != "" {
				g.Expect(err).To(MatchError(ContainSubstring(test.wrong)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Next(noon, "uid")).To(BeTemporally(">", noon))
		})
	}
}

func mustParse(t *testing.T, schedule, zone string) Schedule {
	t.Helper()
	s, err := ParseSchedule(schedule, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnIntervalIsATenthLongerOrShorter(t *testing.T) {
	g := NewWithT(t)
	s := mustParse(t, "10m", "")
	var shortest, longest time.Duration = time.Hour, 0
	for i := range 2000 {
		uid := fmt.Sprint("uid-", i)
		next := s.Next(noon, uid)
		g.Expect(next).To(Equal(s.Next(noon, uid)), "each process says the same")
		g.Expect(next).To(Equal(next.Truncate(time.Second)), "a status holds seconds")
		shortest, longest = min(shortest, next.Sub(noon)), max(longest, next.Sub(noon))
	}
	g.Expect(shortest).To(And(BeNumerically(">=", 9*time.Minute), BeNumerically("<", 9*time.Minute+10*time.Second)))
	g.Expect(longest).To(And(BeNumerically("<=", 11*time.Minute), BeNumerically(">", 11*time.Minute-10*time.Second)))
	one, at := map[time.Duration]bool{}, noon
	for range 50 {
		next := s.Next(at, "uid")
		one[next.Sub(at)], at = true, next
	}
	g.Expect(len(one)).To(BeNumerically(">", 20), "one object is not always late by the same")
	g.Expect(at.Sub(noon)).To(BeNumerically("~", 500*time.Minute, 20*time.Minute), "in the long run the interval is what the schedule says")
}

func TestACronExpressionIsReadInItsZoneOverAChangeOfTheClocks(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(day, hour, minute int, month time.Month, year int) time.Time {
		return time.Date(year, month, day, hour, minute, 0, 0, time.UTC)
	}
	for name, test := range map[string]struct {
		schedule, zone string
		from           time.Time
		// want are the next times, in UTC.
		want []time.Time
	}{
		"three o'clock in the morning, when clocks go forward": {
			"0 3 * * *", "Europe/Berlin", at(27, 12, 0, time.March, 2027),
			[]time.Time{at(28, 1, 0, time.March, 2027), at(29, 1, 0, time.March, 2027)},
		},
		"the day before, it was an hour later in UTC": {
			"0 3 * * *", "Europe/Berlin", at(26, 12, 0, time.March, 2027), []time.Time{at(27, 2, 0, time.March, 2027), at(28, 1, 0, time.March, 2027)},
		},
		"when clocks go back": {
			"0 3 * * *", "Europe/Berlin", at(30, 12, 0, time.October, 2027),
			[]time.Time{at(31, 2, 0, time.October, 2027), at(1, 2, 0, time.November, 2027)},
		},
		"an hour that is left out comes on the next day": {
			"30 2 * * *", "Europe/Berlin", at(27, 12, 0, time.March, 2027), []time.Time{at(29, 0, 30, time.March, 2027)},
		},
		"an hour that comes twice comes twice": {
			"30 2 * * *", "Europe/Berlin", at(30, 12, 0, time.October, 2027),
			[]time.Time{at(31, 0, 30, time.October, 2027), at(31, 1, 30, time.October, 2027), at(1, 1, 30, time.November, 2027)},
		},
		"each hour is not moved by it": {
			"0 * * * *", "Europe/Berlin", at(28, 0, 30, time.March, 2027), []time.Time{at(28, 1, 0, time.March, 2027), at(28, 2, 0, time.March, 2027)},
		},
		"in UTC nothing changes": {
			"0 3 * * *", "", at(27, 12, 0, time.March, 2027), []time.Time{at(28, 3, 0, time.March, 2027), at(29, 3, 0, time.March, 2027)},
		},
		"a zone that is half an hour off": {
			"0 3 * * *", "Asia/Kolkata", at(27, 12, 0, time.March, 2027), []time.Time{at(27, 21, 30, time.March, 2027)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, from := mustParse(t, test.schedule, test.zone), test.from
			for _, want := range test.want {
				next := s.Next(from, "uid")
				g.Expect(next).To(And(BeTemporally(">=", want), BeTemporally("<", want.Add(maxLate))), "after %s", from.In(berlin))
				from = next
			}
		})
	}
}

func TestACronExpressionIsNeverEarlyAndALittleLate(t *testing.T) {
	g, random := NewWithT(t), rand.New(rand.NewPCG(4, 0))
	zones := []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"}
	schedules := []string{"* * * * *", "*/5 * * * *", "0 3 * * *", "30 2 1 * *", "15 14 * * SUN", "0 0 29 2 *"}
	for range 1000 {
		s := mustParse(t, schedules[random.IntN(len(schedules))], zones[random.IntN(len(zones))])
		last := noon.Add(time.Duration(random.IntN(3*365*24*3600)) * time.Second)
		start, gap := s.upcoming(last)
		next := s.Next(last, fmt.Sprint(random.IntN(50)))
		g.Expect(next).To(BeTemporally(">=", start))
		g.Expect(next.Sub(start)).To(And(BeNumerically("<=", maxLate), BeNumerically("<=", gap/jitterShare)))
		g.Expect(next).To(BeTemporally(">", last))
		g.Expect(s.Next(next, "uid").Sub(start)).To(BeNumerically(">=", gap), "a late fetch does not skip a start, or come twice")
	}
}

func TestHowLongToWaitAfterFailures(t *testing.T) {
	for name, test := range map[string]struct {
		failures int
		interval time.Duration
		want     time.Duration
	}{
		"the first":                          {1, time.Hour, 30 * time.Second},
		"each further one twice as long":     {4, time.Hour, 4 * time.Minute},
		"never longer than the interval":     {9, time.Hour, time.Hour},
		"however many there are":             {1 << 30, time.Hour, time.Hour},
		"an interval of half a minute":       {5, 30 * time.Second, 30 * time.Second},
		"never shorter than half a minute":   {1, time.Second, 30 * time.Second},
		"none counts as the first":           {0, time.Hour, 30 * time.Second},
		"an interval that is no power of it": {4, 3 * time.Minute, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Backoff(test.failures, test.interval)).To(Equal(test.want))
		})
	}
}

func TestAT05FiveMinutesOfFailuresAreFiveFetchesAtMost(t *testing.T) {
	g := NewWithT(t)
	s := mustParse(t, "10m", "")
	attempts, at := 0, noon
	for at.Before(noon.Add(5 * time.Minute)) {
		attempts++
		at = at.Add(Backoff(attempts, s.Interval(at)))
	}
	g.Expect(attempts).To(Equal(4))
}

func TestFetchesFromOneTargetAreSpaced(t *testing.T) {
	g := NewWithT(t)
	targets := &Targets{Rate: 0.5, Burst: 2}
	at := func(target string, seconds int) time.Duration {
		now := noon.Add(time.Duration(seconds) * time.Second)
		return targets.Reserve(target, now).Sub(now)
	}
	g.Expect(at("https://a:443", 0)).To(BeZero())
	g.Expect(at("https://a:443", 0)).To(BeZero(), "the burst")
	g.Expect(at("https://a:443", 0)).To(Equal(2 * time.Second))
	g.Expect(at("https://a:443", 0)).To(Equal(4 * time.Second))
	g.Expect(at("https://b:443", 0)).To(BeZero(), "another target")
	g.Expect(at("https://a:443", 8)).To(BeZero())
	g.Expect(targets.Len()).To(Equal(1), "b has all of its burst again, and is forgotten")
	g.Expect((&Targets{}).Reserve("https://a:443", noon)).To(Equal(noon), "without a rate nothing waits")
}
