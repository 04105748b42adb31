package controller

import "github.com/warren-mq/warren/internal/controller/controllertest"

var testIndexes = []controllertest.AddIndexes{addIndexes}
