package p2p

import (
	"errors"
	"fmt"
	"testing"
)

var allSessions = []Session{SessionInbound, SessionOutbound, SessionManual, SessionSeed, SessionRefine, SessionDirect}

// The table of the facts page 2.5, with the differences of decision 0045.
func TestWhatOffencesCost(t *testing.T) {
	only := func(ss ...Session) map[Session]bool {
		m := make(map[Session]bool)
		for _, s := range ss {
			m[s] = true
		}
		return m
	}
	nonRefine := only(SessionInbound, SessionOutbound, SessionManual, SessionSeed, SessionDirect)
	table := map[offence]map[Session]bool{
		offenceLost:        {},
		offenceMagic:       only(SessionOutbound),
		offenceCommandForm: {},
		offenceCommandLong: only(allSessions...),
		offenceUnknown:     nonRefine,
		offenceLength:      nonRefine,
		offenceOversize:    nonRefine,
		offenceAppOversize: {},
		offencePayload:     nonRefine,
		offenceMeter:       nonRefine,
		offenceVersion:     only(SessionOutbound),
		offenceStall:       {},
		offenceEarly:       {},
	}
	if len(table) != int(offences) {
		t.Fatalf("%d of %d offences in the table", len(table), offences)
	}
	for o, bans := range table {
		for _, s := range allSessions {
			if o.bans(s) != bans[s] {
				t.Errorf("offence %d, %v: ban %v", o, s, o.bans(s))
			}
		}
	}
}

// No text of a cause that may hold an address reaches the log.
func TestCauseTextHoldsNoAddress(t *testing.T) {
	secret := errors.New("dial 203.0.113.9:9600")
	for _, c := range causeTexts {
		if got := causeText(fmt.Errorf("%w: %w", c.err, secret)); got != c.text {
			t.Errorf("%v: %q", c.err, got)
		}
	}
	if got := causeText(secret); got != "closed by a protocol" {
		t.Errorf("%q", got)
	}
}
