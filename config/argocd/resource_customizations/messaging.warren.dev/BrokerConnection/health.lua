local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    conditions[condition.type] = condition
  end
end
local function holds(type)
  return conditions[type] ~= nil and conditions[type].status == "True"
end

if conditions.Ready == nil or obj.status.observedGeneration ~= obj.metadata.generation then
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
