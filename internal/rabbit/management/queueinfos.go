package management

import (
	"context"
	"net/url"
	"strconv"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
)

// listedAtOnce is how many queues RabbitMQ lists in one page at most.
const listedAtOnce = 500

// QueueInfos requests queues without statistics, and returns them by name. The result leaves out queues that do not exist. pattern must
// match exactly these queues. One request lists up to 500 of them, and makes the broker visit all queues of the vhost. All requests
// together have the timeout of one.
func (m *Client) QueueInfos(ctx context.Context, queues []string, pattern string) (map[string]*QueueInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	kept := NewKept(m.Limits)
	defer kept.Room.Free()
	infos := make(map[string]*QueueInfo, len(queues))
	for _, queue := range queues {
		infos[queue] = nil
	}
	allowed := (len(queues) + listedAtOnce - 1) / listedAtOnce
	for page, pages := 1, 1; page <= pages; page++ {
		path := "/queues/" + Escape(m.VHost) + WithoutStatistics + ",name&page=" + strconv.Itoa(page) +
			"&page_size=" + strconv.Itoa(listedAtOnce) + "&use_regex=true&name=" + url.QueryEscape(pattern)
		_, err := m.Get(ctx, path, "", StreamedFunc(func(a *Answer) error { return readPage(a, kept, infos, &pages) }))
		if err != nil {
			return nil, err
		}
		if pages > allowed {
			return nil, m.errs.Fail(brokererr.ErrUnreachable, "the answer is not RabbitMQ's: %d pages for %d queues", pages, len(queues))
		}
	}
	for queue, info := range infos {
		if info == nil {
			delete(infos, queue)
		}
	}
	return infos, nil
}

// readPage decodes the queues of a page that have a key in infos, and the number of pages.
func readPage(a *Answer, kept *Kept, infos map[string]*QueueInfo, pages *int) error {
	type item struct {
		Name string
		QueueInfo
	}
	return a.Sections(map[string]func() error{
		"page_count": func() error { return a.decoder.Decode(pages) },
		"items": func() error {
			return EachKept(a, kept, func(listed item) (int64, error) {
				if _, asked := infos[listed.Name]; !asked {
					return 0, nil
				}
				infos[listed.Name] = &listed.QueueInfo
				return sizeOfName + SizeOf(listed.Arguments), a.management.checkArguments(&listed.QueueInfo)
			})
		},
	})
}

// maxMatchQueues is how many match queues are listed. Each AMQP connection of Warren to the vhost has one.
const maxMatchQueues = 20 * listedAtOnce

// MatchQueues returns the names of the match queues of all connections to the vhost.
func (m *Client) MatchQueues(ctx context.Context) (map[string]bool, error) {
	type item struct{ Name string }
	names := map[string]bool{}
	for page, pages := 1, 1; page <= min(pages, maxMatchQueues/listedAtOnce); page++ {
		path := "/queues/" + Escape(m.VHost) + "?disable_stats=true&columns=name&page=" + strconv.Itoa(page) +
			"&page_size=" + strconv.Itoa(listedAtOnce) + "&use_regex=true&name=" + url.QueryEscape("^"+MatchQueue)
		_, err := m.Get(ctx, path, "", StreamedFunc(func(a *Answer) error {
			return a.Sections(map[string]func() error{
				"page_count": func() error { return a.decoder.Decode(&pages) },
				"items": func() error {
					return EachItem(a, func(listed item) (int64, error) {
						names[listed.Name] = true
						return sizeOfName + int64(len(listed.Name)), nil
					})
				},
			})
		}))
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// AllBindings returns the bindings of all queues of the vhost, by queue, except the bindings of the default exchange.
func (m *Client) AllBindings(ctx context.Context) (map[string][]vhost.Binding, error) {
	bindings := map[string][]vhost.Binding{}
	path := "/bindings/" + Escape(m.VHost) + "?columns=" + BindingColumns
	_, err := m.Get(ctx, path, "", StreamedFunc(func(a *Answer) error {
		return EachItem(a, func(item BindingItem) (int64, error) {
			if item.Source == "" || item.DestinationType == "exchange" {
				return 0, nil
			}
			bindings[item.Destination] = append(bindings[item.Destination], item.Observed())
			return sizeOfBinding + int64(len(item.Source)+len(item.Destination)+len(item.RoutingKey)) + SizeOf(item.Arguments), nil
		})
	}))
	return bindings, err
}
