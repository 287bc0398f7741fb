package endpoint

import (
	"context"
	"errors"
	"math"
	"time"

	"hearsay/mailbox"
)

// How often a relay is asked what it has registered: seldom, and sooner where it was not
// everything.
const (
	askInterval   = 24 * time.Hour
	shortInterval = time.Hour
)

// askRegistered asks a relay how many tokens it has registered for this node. A check-in
// does not say which of its tokens were taken: where a relay has no room for them, or
// somebody else has registered them, mail for them is refused, and only its author would
// notice. Tokens of weeks that are over count as well until they expire, so a shortage may
// be told late, never wrongly. A relay without the extension is not asked.
func (e *Endpoint) askRegistered(ctx context.Context, relay RelayID, who Requester, want int) error {
	if e.cfg.Registered == nil || time.Now().Before(e.asked[relay]) {
		return nil
	}
	resp, err := who.Do(ctx, mailbox.Request{Info: &mailbox.Info{}})
	wait := askInterval
	switch {
	case errors.Is(err, ErrUnsupported):
	case err != nil:
		return err
	case resp.Info != nil:
		have := int(min(resp.Info.ClientTokens, math.MaxInt32))
		if have < want {
			wait = shortInterval
		}
		e.cfg.Registered(relay, have, want)
	}
	e.asked[relay] = time.Now().Add(e.around(wait))
	return nil
}
