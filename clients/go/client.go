// SPDX-License-Identifier: Apache-2.0

// Package tenax is a client of Tenax, a durable job server. A Client enqueues jobs and asks the server
// anything else; a Worker runs a function for each job. Only the standard library is used.
package tenax

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	mathrand "math/rand"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	backoffFirst   = 100 * time.Millisecond
	backoffMax     = 2 * time.Second
	connectTimeout = 5 * time.Second
	idleMax        = 15 * time.Second // well below what a server closes a connection after
)

// Options say where the server is. What is empty comes from the environment, as for the tenax
// commands: TENAX_URL, TENAX_TOKEN_FILE or TENAX_TOKEN, TENAX_CA_CERT, TENAX_CLIENT_CERT,
// TENAX_CLIENT_KEY.
type Options struct {
	URL                           string
	Token, TokenFile              string
	CACert, ClientCert, ClientKey string        // PEM files
	Timeout                       time.Duration // of each request; 30 s if 0
	RetryFor                      time.Duration // how long a request is repeated, if that is safe; 30 s if 0, negative: never

	// NoIdempotencyKeys saves the server some bytes of disk for each enqueue, which then cannot
	// be repeated when its answer is lost.
	NoIdempotencyKeys bool

	// Log is told when a request is sent again because something in between, such as a proxy,
	// answered in the server's place; the standard logger if nil.
	Log *log.Logger
}

// A Client is a server, by its URL. It may be used by many goroutines.
type Client struct {
	url      string
	options  Options
	mu       sync.Mutex
	token    string
	http     *http.Client
	timeout  time.Duration
	retryFor time.Duration
	noKeys   bool
	log      *log.Logger
	reports  *reports
	enqueues *enqueues
}

// HOST[:PORT][/PATH], without a scheme.
var bareURL = regexp.MustCompile(`^(\[[^\]]*\]|[^\s:/@\[\]?#]+)(:[0-9]+)?(/[^/?#][^?#]*)?$`)

// NewClient reads the token and the certificates; it does not connect.
func NewClient(o Options) (*Client, error) {
	where := strings.TrimRight(first(o.URL, os.Getenv("TENAX_URL"), "http://127.0.0.1:7890"), "/")
	if bare := bareURL.FindStringSubmatch(where); bare != nil {
		where = "http://" + bare[1] + first(bare[2], ":7890") + bare[3]
	}
	u, err := url.Parse(where)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, errors.New("write the server's URL like http://127.0.0.1:7890 or localhost:7890")
	}
	token, err := readToken(o)
	if err != nil {
		return nil, err
	}
	config, err := readCertificates(o)
	if err != nil {
		return nil, err
	}
	c := &Client{url: where, options: o, token: token, timeout: o.Timeout, retryFor: o.RetryFor, noKeys: o.NoIdempotencyKeys,
		log: o.Log}
	c.reports, c.enqueues = newReports(c), newEnqueues(c)
	if c.log == nil {
		c.log = log.Default()
	}
	if c.timeout == 0 {
		c.timeout = 30 * time.Second
	}
	if c.retryFor == 0 {
		c.retryFor = 30 * time.Second
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: connectTimeout,
			IdleConnTimeout:     idleMax,
			MaxIdleConnsPerHost: 64,
		},
		// The token is for this server only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func readToken(o Options) (string, error) {
	token, source := o.Token, "the token"
	if token == "" {
		source = first(o.TokenFile, os.Getenv("TENAX_TOKEN_FILE"))
		if source != "" {
			text, err := os.ReadFile(source)
			if err != nil {
				return "", err
			}
			token = string(text)
		} else if token, source = os.Getenv("TENAX_TOKEN"), "TENAX_TOKEN"; token == "" {
			return "", nil
		}
	}
	token = strings.TrimSpace(token)
	// The message must not quote what may be a secret.
	if token == "" || strings.IndexFunc(token, func(r rune) bool { return r < '!' || r > '~' }) >= 0 {
		return "", fmt.Errorf("%s has no token, or more than one", source)
	}
	return token, nil
}

func (c *Client) currentToken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token
}

// hasAnotherToken: there is another one by now than was used, in its file, or read by another goroutine.
func (c *Client) hasAnotherToken(used string) bool {
	token, err := readToken(c.options)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil { // else it may be just being written
		c.token = token
	}
	return c.token != used
}

func readCertificates(o Options) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := first(o.CACert, os.Getenv("TENAX_CA_CERT")); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", file)
		}
	}
	if file := first(o.ClientCert, os.Getenv("TENAX_CLIENT_CERT")); file != "" {
		key := first(o.ClientKey, os.Getenv("TENAX_CLIENT_KEY"))
		pair, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Enqueue enqueues a job. The context may have a key, by WithIdempotencyKey; without one each call has a
// key of its own, so that it can be repeated when its answer is lost.
//
// A *ConnectionError with Sent: for as long as Options.RetryFor there was no answer, and nobody knows
// whether the job was enqueued. With NoIdempotencyKeys only what the server recognises is repeated: a job
// with an Alias, or with a UniqueKey and UniqueWhile "exists", of which the answer may then say Duplicate.
func (c *Client) Enqueue(ctx context.Context, job NewJob) (*JobData, error) {
	content, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	answer := &JobData{}
	if key, _ := ctx.Value(keyOfContext{}).(string); key == "" && job.isPlain() {
		err = c.enqueues.enqueue(ctx, content, answer)
	} else {
		err = c.enqueue(ctx, "/jobs", content, job.mayRepeat(), answer)
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// EnqueueBulk enqueues all of them or none.
func (c *Client) EnqueueBulk(ctx context.Context, jobs []NewJob) ([]JobData, error) {
	var answer struct{ Jobs []JobData }
	content, err := json.Marshal(map[string]any{"jobs": jobs})
	if err != nil {
		return nil, err
	}
	mayRepeat := true
	for _, job := range jobs {
		mayRepeat = mayRepeat && job.mayRepeat()
	}
	err = c.enqueue(ctx, "/jobs/bulk", content, mayRepeat, &answer)
	return answer.Jobs, err
}

type keyOfContext struct{}

// WithIdempotencyKey gives the key to the enqueue that has the context. The same jobs with the same key
// again, also after a restart, are answered as the first time, and add nothing.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOfContext{}, key)
}

func (c *Client) enqueue(ctx context.Context, path string, content json.RawMessage, mayRepeat bool, answer any) error {
	r := request{"POST", path, content, true, c.timeout, c.retryFor, "id"}
	if path == "/jobs/bulk" {
		r.member = "jobs"
	}
	key, _ := ctx.Value(keyOfContext{}).(string)
	if key == "" && c.noKeys {
		r.repeat = mayRepeat
		return c.ask(ctx, r, answer)
	}
	if key == "" {
		var bytes [16]byte
		if _, err := rand.Read(bytes[:]); err != nil {
			return err
		}
		ctx = WithIdempotencyKey(ctx, hex.EncodeToString(bytes[:]))
	}
	return c.ask(ctx, r, answer)
}

// Job is a job as it is now.
func (c *Client) Job(ctx context.Context, id string) (*JobData, error) {
	answer := &JobData{}
	if err := c.Do(ctx, "GET", "/jobs/"+url.PathEscape(id), nil, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// Do is any request of docs/api.md. A nil body sends none; the answer's JSON is read into answer, unless
// that is nil or there is none. Errors are *APIError, *ConnectionError or those of the context.
//
// When it is not known whether a request arrived it is repeated if its method is GET, PUT or DELETE.
func (c *Client) Do(ctx context.Context, method, path string, body, answer any) error {
	repeat := method == "GET" || method == "PUT" || method == "DELETE"
	return c.ask(ctx, request{method, path, body, repeat, c.timeout, c.retryFor, ""}, answer)
}

type request struct {
	method, path string
	body         any
	repeat       bool // also when it is not known whether it arrived
	timeout      time.Duration
	retryFor     time.Duration
	member       string // an answer without it is not from Tenax
}

func (c *Client) ask(ctx context.Context, r request, answer any) error {
	content, isJSON := r.body.(json.RawMessage)
	if r.body != nil && !isJSON {
		var err error
		if content, err = json.Marshal(r.body); err != nil {
			return err
		}
	}
	end := time.Now().Add(r.retryFor)
	for tries := 0; ; tries++ {
		used := c.currentToken()
		err := c.once(ctx, r, content, answer)
		if errors.Is(err, ErrUnauthorized) && c.hasAnotherToken(used) {
			continue
		}
		pause := backoff(tries, backoffMax)
		if err == nil || !again(err, r.repeat) || time.Now().Add(pause).After(end) {
			return err
		}
		if isForeign(err) {
			c.log.Printf("%v; it is asked again", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// again says whether a request may be repeated.
func again(err error, repeat bool) bool {
	var refused *APIError
	var broken *ConnectionError
	if errors.As(err, &broken) {
		return repeat || !broken.Sent
	}
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code {
	case "busy", "stopping", "disk_full", "request_timeout":
		return true // nothing was done
	}
	return repeat && refused.Status >= 500 && refused.Status != http.StatusNotImplemented
}

// backoff is the wait before the next try, a random half of it.
func backoff(tries int, most time.Duration) time.Duration {
	full := most
	if tries < 10 && backoffFirst<<tries < most {
		full = backoffFirst << tries
	}
	return full/2 + time.Duration(mathrand.Int63n(int64(full/2)+1))
}

func (c *Client) once(ctx context.Context, r request, content []byte, answer any) error {
	within, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(within, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	})
	var body io.Reader
	if content != nil {
		body = bytes.NewReader(content)
	}
	req, err := http.NewRequestWithContext(traced, r.method, c.url+r.path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "tenax-go/0.1.0")
	req.Header.Set("Tenax-Strict", "true") // a misspelt name must not be ignored
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key, ok := ctx.Value(keyOfContext{}).(string); ok && key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if token := c.currentToken(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return &ConnectionError{sent.Load(), err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return &ConnectionError{true, err}
	}
	foreign := &ConnectionError{true, &ForeignAnswer{res.StatusCode, r.method + " " + r.path}}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		if refused := newAPIError(r.path, res.StatusCode, text); refused != nil {
			return refused
		}
		return foreign
	}
	if !isDone(r.path, res.StatusCode, text, r.member) {
		return foreign
	}
	if answer == nil || len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, answer)
}

func hasMember(text []byte, member string) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(text, &members) == nil && members[member] != nil
}
