package management

import (
	"context"
	"maps"
	"net/url"
	"strconv"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
)

// listedAtOnce is the maximum number of queues in a page of a listing.
const listedAtOnce = 500

// QueueInfos requests queues without statistics, and returns the existing ones by name. pattern must match exactly these queues. One
// request lists up to 500 of them, but the broker visits all queues of the vhost for it. The timeout of one request applies to all requests
// together.
func (c *Client) QueueInfos(ctx context.Context, queues []string, pattern string) (map[string]*QueueInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	kept := NewKept(c.Limits)
	defer kept.Room.Free()
	infos := make(map[string]*QueueInfo, len(queues))
	for _, queue := range queues {
		infos[queue] = nil
	}
	type item struct {
		Name string
		QueueInfo
	}
	allowed := (len(queues) + listedAtOnce - 1) / listedAtOnce
	pages, err := c.eachPage(ctx, WithoutStatistics+",name", pattern, allowed, func(a *Answer) error {
		return EachKept(a, kept, func(listed item) (int64, error) {
			if _, asked := infos[listed.Name]; !asked {
				return 0, nil
			}
			infos[listed.Name] = &listed.QueueInfo
			return sizeOfName + SizeOf(listed.Arguments), c.checkArguments(&listed.QueueInfo)
		})
	})
	if err != nil {
		return nil, err
	}
	if pages > allowed {
		return nil, c.errs.Fail(brokererr.ErrUnreachable, "the response is not from RabbitMQ: %d pages for %d queues", pages, len(queues))
	}
	maps.DeleteFunc(infos, func(_ string, info *QueueInfo) bool { return info == nil })
	return infos, nil
}

// eachPage requests the queues whose names match a pattern, up to a limit of pages. items decodes the queues of a page. eachPage returns
// the total number of pages.
func (c *Client) eachPage(ctx context.Context, query, pattern string, limit int, items func(*Answer) error) (pages int, err error) {
	pages = 1
	for page := 1; page <= min(pages, limit); page++ {
		path := "/queues/" + Escape(c.VHost) + query + "&page=" + strconv.Itoa(page) + "&page_size=" + strconv.Itoa(listedAtOnce) +
			"&use_regex=true&name=" + url.QueryEscape(pattern)
		_, err := c.Get(ctx, path, "", StreamedFunc(func(a *Answer) error {
			return a.Sections(map[string]func() error{
				"page_count": func() error { return a.decoder.Decode(&pages) },
				"items":      func() error { return items(a) },
			})
		}))
		if err != nil {
			return 0, err
		}
	}
	return pages, nil
}

// maxMatchPages is how many pages of match queues are read. Each AMQP connection of Warren to the vhost has a match queue.
const maxMatchPages = 20

// longestMatchQueue is longer than the name of any match queue.
const longestMatchQueue = 64

// MatchQueues returns the names of the match queues of all connections to the vhost. The timeout of one request applies to all requests
// together.
func (c *Client) MatchQueues(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	type item struct{ Name string }
	names := map[string]bool{}
	_, err := c.eachPage(ctx, "?disable_stats=true&columns=name", "^"+MatchQueue, maxMatchPages, func(a *Answer) error {
		return eachItem(a, func(listed item) (int64, error) {
			if len(listed.Name) <= longestMatchQueue {
				names[listed.Name] = true
			}
			if len(names) > maxMatchPages*listedAtOnce {
				return 0, c.errs.Fail(brokererr.ErrUnreachable,
					"the response is not from RabbitMQ: more than %d queues in a page", listedAtOnce)
			}
			return sizeOfName + int64(len(listed.Name)), nil
		})
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// AllBindings returns the bindings of all queues of the vhost, by queue, except the bindings of the default exchange.
func (c *Client) AllBindings(ctx context.Context) (map[string][]vhost.Binding, error) {
	bindings := map[string][]vhost.Binding{}
	path := "/bindings/" + Escape(c.VHost) + "?columns=" + BindingColumns
	err := each(ctx, c, path, func(item BindingItem) (int64, error) {
		if item.Source == "" || item.DestinationType == "exchange" {
			return 0, nil
		}
		bindings[item.Destination] = append(bindings[item.Destination], item.Observed())
		return sizeOfBinding + int64(len(item.Source)+len(item.Destination)+len(item.RoutingKey)) + SizeOf(item.Arguments), nil
	})
	return bindings, err
}
