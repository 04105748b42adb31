if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["messaging.warren.dev/approve-recreation"] = obj.status.planHash
obj.metadata.annotations["messaging.warren.dev/abort-recreation"] = nil
return obj
