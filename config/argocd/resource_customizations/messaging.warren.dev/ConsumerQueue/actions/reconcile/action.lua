local os = require("os")
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["messaging.warren.dev/requested-at"] = os.date("!%Y-%m-%dT%XZ")
return obj
