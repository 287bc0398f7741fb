package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"hearsay/internal/config"
)

// openLog makes the logger that the configuration asks for: lines of JSON, or
// readable ones where a terminal reads them. done closes the file.
func openLog(cfg config.Log, stderr io.Writer) (log *slog.Logger, done func() error, err error) {
	level := zerolog.InfoLevel
	if cfg.Verbose > 0 {
		level = zerolog.DebugLevel
	}
	out, done := stderr, func() error { return nil }
	if cfg.File != "" {
		if err := os.MkdirAll(filepath.Dir(cfg.File), 0o700); err != nil {
			return nil, nil, fmt.Errorf("log: %w", err)
		}
		f, err := os.OpenFile(cfg.File, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("log: %w", err)
		}
		out, done = f, f.Close
	} else if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		out = zerolog.ConsoleWriter{Out: f, TimeFormat: time.TimeOnly}
	}
	return newLogger(out, level), done, nil
}

func newLogger(out io.Writer, level zerolog.Level) *slog.Logger {
	return slog.New(zerolog.NewSlogHandler(zerolog.New(out).Level(level).With().Timestamp().Logger()))
}
