package relay

import (
	"fmt"
	"reflect"
	"time"

	"hearsay/mailbox"
)

// Limits are the bounds of one relay (MB-50). The zero value of a field means its
// default; a set value may only be lower (or, for durations, shorter), so that
// clients can rely on the defaults as the most that any relay promises. The two request
// rates alone may be raised, to maxRate: they promise nothing and cost the operator's
// own processor (decision 0153).
type Limits struct {
	EnvelopeTTL time.Duration // how long an envelope is kept; default 30 days
	TokenTTL    time.Duration // how long a registration lasts without refresh; 60 days
	LeaseTTL    time.Duration // how long a page is held for its collector; 120 s
	DedupTTL    time.Duration // how long after its acknowledgement an envelope is still recognised; 1 h (MB-28)

	PageRows      int // rows of a page; 128
	PageBytes     int // envelope bytes of a page; 1 MiB
	RequestTokens int // tokens of a check-in; 4,096

	ClientTokens   int // registrations of a client; 4,096
	ClientRows     int // deposits of a client that wait here; 4,096
	ClientBytes    int // their bytes; 32 MiB
	ClientLeases   int // live leases of a client; 4
	ClientRequests int // requests of a client in a minute; 2,048

	TokenRows   int // deposits under a token; 256
	TokenBytes  int // their bytes; 16 MiB
	TokenLeases int // live leases with rows of a token; 2

	RelayRows     int // deposits; 65,536
	RelayBytes    int // their bytes; 64 MiB
	RelayLeases   int // live leases; 4,096
	RelayRequests int // requests in a minute; 8,192

	Registrations int // registered tokens; 262,144 (MB-07)
	RateRows      int // clients whose requests are counted; 16,384 (MB-07)
	DedupRows     int // acknowledged content ids that are remembered; 65,536 (MB-28)
	AckedLeases   int // acknowledged leases that are remembered until they expire; 16,384 (MB-16)
	PenaltyRows   int // refused rows of a token that wait behind everything else; 128 (MB-36)
}

// Profile is the default of every limit (MB-50).
func Profile() Limits {
	const day = 24 * time.Hour
	return Limits{
		EnvelopeTTL: 30 * day, TokenTTL: 60 * day, LeaseTTL: 120 * time.Second, DedupTTL: time.Hour,
		PageRows: mailbox.MaxPageRows, PageBytes: mailbox.MaxPageBytes, RequestTokens: mailbox.MaxTokens,
		ClientTokens: 4096, ClientRows: 4096, ClientBytes: 32 << 20, ClientLeases: 4, ClientRequests: 2048,
		TokenRows: 256, TokenBytes: 16 << 20, TokenLeases: 2,
		RelayRows: 65536, RelayBytes: 64 << 20, RelayLeases: 4096, RelayRequests: 8192,
		Registrations: 262144, RateRows: 16384, DedupRows: 65536, AckedLeases: 16384, PenaltyRows: 128,
	}
}

// profile is what nothing may exceed, whatever the limits of the moment: a lease that was
// made under longer limits outlives a restart with shorter ones (MB-30).
var profile = Profile()

// maxRate bounds a request rate, in requests a minute.
const maxRate = 1_000_000

var raisable = map[string]bool{"ClientRequests": true, "RelayRequests": true}

// withDefaults fills in zero fields and refuses a value above its default.
func (l Limits) withDefaults() (Limits, error) {
	v, p := reflect.ValueOf(&l).Elem(), reflect.ValueOf(Profile())
	for i := range v.NumField() {
		f, most := v.Field(i), p.Field(i).Int()
		switch {
		case f.Int() == 0:
			f.SetInt(most)
		case f.Int() > 0 && f.Int() <= maxRate && raisable[v.Type().Field(i).Name]:
		case f.Int() < 0 || f.Int() > most:
			return Limits{}, fmt.Errorf("relay: limit %s must be between 1 and %v", v.Type().Field(i).Name, p.Field(i))
		}
	}
	return l, nil
}
