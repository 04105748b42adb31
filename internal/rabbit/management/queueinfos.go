package management

import (
	"context"
	"net/url"
	"strconv"

	"github.com/warren-mq/warren/internal/vhost"
)

// listedAtOnce is how many queues RabbitMQ lists in one page at most.
const listedAtOnce = 500

// QueueInfos asks for the queues whose names a pattern matches, without statistics, by name. It is one request for all, or one for
// each 500, and costs the broker a walk over the queues of the vhost.
func (m *Client) QueueInfos(ctx context.Context, pattern string) (map[string]*QueueInfo, error) {
	type item struct {
		Name string
		QueueInfo
	}
	infos := map[string]*QueueInfo{}
	for page, pages := 1, 1; page <= pages; page++ {
		path := "/queues/" + Escape(m.VHost) + WithoutStatistics + ",name&page=" + strconv.Itoa(page) +
			"&page_size=" + strconv.Itoa(listedAtOnce) + "&use_regex=true&name=" + url.QueryEscape(pattern)
		_, err := m.Get(ctx, path, "", StreamedFunc(func(a *Answer) error {
			return a.Sections(map[string]func() error{
				"page_count": func() error { return a.decoder.Decode(&pages) },
				"items": func() error {
					return EachItem(a, func(listed item) (int64, error) {
						infos[listed.Name] = &listed.QueueInfo
						return SizeOf(listed.Arguments), nil
					})
				},
			})
		}))
		if err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// maxMatchQueues is how many match queues are listed. There is one for each AMQP connection of Warren's to the vhost.
const maxMatchQueues = 20 * listedAtOnce

// MatchQueues lists the names of the match queues of the vhost, those of all connections.
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

// AllBindings lists the bindings of the vhost to queues, by queue, but for those of the default exchange.
func (m *Client) AllBindings(ctx context.Context) (map[string][]vhost.Binding, error) {
	bindings := map[string][]vhost.Binding{}
	path := "/bindings/" + Escape(m.VHost) + "?columns=" + BindingColumns
	_, err := m.Get(ctx, path, "", StreamedFunc(func(a *Answer) error {
		return EachItem(a, func(item BindingItem) (int64, error) {
			if item.Source == "" || item.DestinationType == "exchange" {
				return 0, nil
			}
			bindings[item.Destination] = append(bindings[item.Destination], item.Observed())
			return int64(len(item.Source)+len(item.Destination)+len(item.RoutingKey)) + SizeOf(item.Arguments), nil
		})
	}))
	return bindings, err
}
