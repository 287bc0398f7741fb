package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"hearsay/internal/rpc"
)

// A dagPage is the result of hearsay.dag: events in time order, ids and structure
// only.
type dagPage struct {
	Nodes []dagNode  `json:"nodes"`
	Next  *dagCursor `json:"next"` // null: that was all
}

// A dagCursor is where a page begins: behind this event of this slot.
type dagCursor struct {
	Slot      uint64 `json:"slot"`
	Timestamp uint64 `json:"timestamp"`
	ID        string `json:"id"`
}

type dagNode struct {
	ID        string   `json:"id"`
	Slot      uint64   `json:"slot"`
	Timestamp uint64   `json:"timestamp"` // ms since the epoch, by the author's clock
	Layer     uint64   `json:"layer"`
	Parents   []string `json:"parents"`
	Size      int      `json:"size"` // bytes of the content
	Tip       bool     `json:"tip"`
}

// dagNodes asks for page after page.
func dagNodes(ctx context.Context, c *rpc.Client) iter.Seq2[dagNode, error] {
	return func(yield func(dagNode, error) bool) {
		from := &dagCursor{}
		for from != nil {
			var page dagPage
			if err := c.Call(ctx, "hearsay.dag", []any{from}, &page); err != nil {
				yield(dagNode{}, err)
				return
			}
			for _, n := range page.Nodes {
				if !yield(n, nil) {
					return
				}
			}
			from = page.Next
		}
	}
}

func newDagShow() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "list the events, slot by slot",
		Long:    "Lists the retained events of each slot in the order of time: id, layer, time and parents.\nA star marks a tip. Never their text.",
		Example: "  hearsay dag show",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDaemon(cmd.Context(), w, func(ctx context.Context, c *rpc.Client) error {
				out := bufio.NewWriter(cmd.OutOrStdout())
				if err := showDag(out, dagNodes(ctx, c)); err != nil {
					return err
				}
				return out.Flush()
			})
		},
	}
	w.flags(cmd)
	return cmd
}

func showDag(out io.Writer, nodes iter.Seq2[dagNode, error]) error {
	slot, first := uint64(0), true
	for n, err := range nodes {
		if err != nil {
			return err
		}
		if n.Slot != slot || first {
			slot, first = n.Slot, false
			printf(out, "slot %d (%s)\n", slot, time.UnixMilli(int64(slot)).UTC().Format(time.RFC3339))
		}
		mark := " "
		if n.Tip {
			mark = "*"
		}
		printf(out, " %s %s layer %d %s", mark, shortID(n.ID), n.Layer, time.UnixMilli(int64(n.Timestamp)).UTC().Format("15:04:05.000"))
		if len(n.Parents) == 0 {
			printf(out, " genesis")
		}
		for i, p := range n.Parents {
			if i == 0 {
				printf(out, " on")
			}
			printf(out, " %s", shortID(p))
		}
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
	}
	return nil
}

func shortID(id string) string { return id[:min(len(id), 12)] }

func newDagExport() *cobra.Command {
	var w where
	var format string
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "write the graph as JSON or for Graphviz",
		Long:    "Writes the retained events, ids and structure, to standard output. Never their text.",
		Example: "  hearsay dag export --format dot | dot -Tsvg > graph.svg\n  hearsay dag export --format json | jq '.events | length'",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write := map[string]func(io.Writer, iter.Seq2[dagNode, error]) error{"dot": writeDot, "json": writeDagJSON}[format]
			if write == nil {
				return &usageError{cmd.CommandPath(), fmt.Errorf("unknown format %q", format)}
			}
			return withDaemon(cmd.Context(), w, func(ctx context.Context, c *rpc.Client) error {
				out := bufio.NewWriter(cmd.OutOrStdout())
				if err := write(out, dagNodes(ctx, c)); err != nil {
					return err
				}
				return out.Flush()
			})
		},
	}
	w.flags(cmd)
	cmd.Flags().StringVar(&format, "format", "json", "`FORMAT`: dot or json")
	return cmd
}

func writeDot(out io.Writer, nodes iter.Seq2[dagNode, error]) error {
	printf(out, "digraph hearsay {\n\trankdir=RL;\n\tnode [shape=box, fontname=monospace];\n")
	for n, err := range nodes {
		if err != nil {
			return err
		}
		style := ""
		switch {
		case len(n.Parents) == 0:
			style = ", style=filled"
		case n.Tip:
			style = ", peripheries=2"
		}
		printf(out, "\t%q [label=%q%s];\n", n.ID, shortID(n.ID)+" "+strconv.FormatUint(n.Layer, 10), style)
		for _, p := range n.Parents {
			printf(out, "\t%q -> %q;\n", n.ID, p)
		}
	}
	_, err := fmt.Fprintln(out, "}")
	return err
}

func writeDagJSON(out io.Writer, nodes iter.Seq2[dagNode, error]) error {
	printf(out, `{"events":[`)
	sep := "\n"
	for n, err := range nodes {
		if err != nil {
			return err
		}
		b, err := json.Marshal(n)
		if err != nil {
			return err
		}
		printf(out, "%s%s", sep, b)
		sep = ",\n"
	}
	_, err := fmt.Fprintln(out, "\n]}")
	return err
}
