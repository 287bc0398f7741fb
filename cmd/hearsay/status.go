package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"hearsay/internal/rpc"
	"hearsay/ircd"
)

// A statusReport is "hearsay status --json", and the result of hearsay.status. Its
// names are fixed; fields may be added.
type statusReport struct {
	Version     string         `json:"version"`
	UptimeS     int64          `json:"uptime_s"`
	Synced      bool           `json:"synced"`
	ClockSkewMS int64          `json:"clock_skew_ms"` // the peers' median minus ours; 0 below three peers
	P2P         p2pStatus      `json:"p2p"`
	Graph       graphStatus    `json:"graph"`
	Outbound    outboundStatus `json:"outbound"`
	Mailbox     mailboxStatus  `json:"mailbox"`
	Relay       *relayStatus   `json:"relay"` // null: not a relay
	Troubles    []string       `json:"troubles"`
}

type p2pStatus struct {
	Connected      int                `json:"connected"`       // connections that carry events
	CanSend        int                `json:"can_send"`        // those of them that can take a message now
	MinConnections int                `json:"min_connections"` // how many of these a message needs (DS-57)
	Connections    []connectionStatus `json:"connections"`
}

type connectionStatus struct {
	ID        string            `json:"id"` // of this process, no address (DS-51)
	Session   string            `json:"session"`
	Transport string            `json:"transport"`
	Features  map[string]uint32 `json:"features"`
}

type graphStatus struct {
	Genesis uint64 `json:"genesis"`
	Slots   int    `json:"slots"`
	Events  int    `json:"events"` // stored bodies without geneses
	Tips    int    `json:"tips"`   // of the current slot
}

type outboundStatus struct {
	Depth      int         `json:"depth"`       // messages that wait for evidence
	Bytes      int64       `json:"bytes"`       // of max_bytes
	AckedTotal uint64      `json:"acked_total"` // since the store was made
	Held       bool        `json:"held"`        // restored from a backup and not confirmed (ST-06)
	Head       *headStatus `json:"head"`        // null: the queue is empty
}

type headStatus struct {
	Position    uint64 `json:"position"`
	State       string `json:"state"`
	Reason      string `json:"reason"`
	Generations int    `json:"generations"`
	Rounds      int    `json:"rounds"`
	NextAttempt string `json:"next_attempt"`
}

type mailboxStatus struct {
	Relays          int `json:"relays"`
	InboxRows       int `json:"inbox_rows"`
	DepositsPending int `json:"deposits_pending"`
	Refused         int `json:"refused"` // relays that are not asked: they would learn our address (MB-47)
}

func newStatus() *cobra.Command {
	var w where
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "what the running daemon is doing",
		Example: "  hearsay status\n  hearsay status --json | jq .p2p.connected",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDaemon(cmd.Context(), w, func(ctx context.Context, c *rpc.Client) error {
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				var raw json.RawMessage
				if err := c.Call(ctx, "hearsay.status", nil, &raw); err != nil {
					return err
				}
				if asJSON {
					_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", raw)
					return err
				}
				var s statusReport
				if err := json.Unmarshal(raw, &s); err != nil {
					return err
				}
				out := bufio.NewWriter(cmd.OutOrStdout())
				printStatus(out, s)
				return out.Flush()
			})
		},
	}
	w.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printQueue(out io.Writer, s outboundStatus, n ircd.NetworkState) {
	printf(out, "queue: %s\n", queueWords(s))
	h := s.Head
	if h == nil {
		return
	}
	printf(out, "  position %d: %s", h.Position, headWords(h.State, h.Reason, n))
	if h.Generations > 0 {
		printf(out, ", %s, %s", count(h.Generations, "generation"), count(h.Rounds, "round"))
	}
	if h.NextAttempt != "" {
		printf(out, ", next attempt %s", h.NextAttempt)
	}
	printf(out, "\n")
}

func printStatus(out io.Writer, s statusReport) {
	up := time.Duration(s.UptimeS) * time.Second
	if s.Relay != nil && s.P2P.MinConnections == 0 { // "hearsay mailbox relay": no node, nothing to be in step with
		printf(out, "hearsay %s, up %s, a mailbox relay alone\n", s.Version, up)
		printRelay(out, s.Relay)
		return
	}
	synced := "not synced yet"
	if s.Synced {
		synced = "synced"
	}
	printf(out, "hearsay %s, up %s, %s\n", s.Version, up, synced)
	n := s.P2P.networkState(s.Synced)
	if gate := gateWords(n); gate != "" {
		printf(out, "sending: nothing is sent now: %s\n", gate)
	}
	for _, text := range s.Troubles {
		printf(out, "trouble: %s\n", text)
	}
	printf(out, "peers: %d of %d needed to send\n", s.P2P.CanSend, s.P2P.MinConnections)
	for _, c := range s.P2P.Connections {
		receipts := ""
		if c.Features[putStatusFeature] > 0 {
			receipts = ", gives receipts"
		}
		printf(out, "  #%s %s over %s%s\n", c.ID, c.Session, c.Transport, receipts)
	}
	printQueue(out, s.Outbound, n)
	printMailbox(out, s.Mailbox)
	if s.Relay != nil {
		printRelay(out, s.Relay)
	}
	printf(out, "graph: %s in %s, %s\n", count(s.Graph.Events, "event"), count(s.Graph.Slots, "slot"), count(s.Graph.Tips, "tip"))
}

func printRelay(out io.Writer, r *relayStatus) {
	printf(out, "relay: %d of %d envelopes, %s, %s\n", r.Rows, r.CapacityRows, count(int(r.Registrations), "registration"), count(int(r.Leases), "lease"))
}
