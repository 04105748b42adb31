package ui

import (
	"mime"
	"net/http"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
	"github.com/warren-mq/warren/internal/deadletterapi/parameters"
)

// export sends the selected messages as a file. If the export is not complete, the connection ends early and the browser reports a failed
// download.
func (s *Server) export(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("queue")
	asked, err := s.DeadLetters(r.Context(), r.PathValue("namespace"))
	if err != nil {
		return err
	}
	body, err := asked.Get(r.Context(), name, deadletters.SubresourceExport, parameters.Of(selectionOf(r.URL.Query()).spec()))
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name + ".ndjson"}))
	if _, _, err := deadletterclient.CopyExport(w, body); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}
