local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    conditions[condition.type] = condition
  end
end
local function holds(type)
  return conditions[type] ~= nil and conditions[type].status == "True"
end

if conditions.Ready == nil then
  return {status = "Progressing", message = "not reconciled yet"}
end
-- The status of a resource that is being deleted keeps the generation from before.
if obj.metadata.deletionTimestamp ~= nil then
  local message = "about to be deleted"
  if conditions.Ready.reason == "Terminating" then
    message = conditions.Ready.message
  end
  return {status = "Progressing", message = message}
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "not reconciled yet"}
end
if holds("Suspended") then
  return {status = "Suspended", message = conditions.Suspended.message}
end
if holds("Stalled") then
  return {status = "Degraded", message = conditions.Stalled.message}
end
if holds("Ready") then
  return {status = "Healthy", message = conditions.Ready.message}
end
return {status = "Progressing", message = conditions.Ready.message}
