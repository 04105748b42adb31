local suspended = obj.spec.suspend == true
-- A suspended BrokerConnection suspends its ConsumerQueues too: nothing looks at them.
local stopped = suspended
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.type == "Suspended" and condition.status == "True" then
      stopped = true
    end
  end
end

local actions = {}
actions["reconcile"] = {["disabled"] = stopped}
actions["suspend"] = {["disabled"] = suspended}
actions["resume"] = {["disabled"] = not suspended}
return actions
