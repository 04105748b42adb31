if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["messaging.warren.dev/abort-recreation"] = obj.status.recreation.id
return obj
