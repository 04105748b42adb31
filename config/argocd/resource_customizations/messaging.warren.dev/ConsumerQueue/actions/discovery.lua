local suspended = obj.spec.suspend == true
-- Warren also does not reconcile ConsumerQueues of a suspended BrokerConnection; their condition Suspended is True.
local stopped = suspended
local needsApproval = false
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.type == "Suspended" and condition.status == "True" then
      stopped = true
    end
    if condition.type == "RecreationRequired" and condition.status == "True" and obj.spec.recreatePolicy ~= "Manual" then
      needsApproval = condition.reason == "ApprovalNeeded" or condition.reason == "ApprovalStale"
        or condition.reason == "RecreationAborted" or condition.reason == "BrokerUpgraded"
    end
  end
end

local actions = {}
actions["reconcile"] = {["disabled"] = stopped}
actions["suspend"] = {["disabled"] = suspended}
actions["resume"] = {["disabled"] = not suspended}
if obj.kind == "ConsumerQueue" then
  local recreation = obj.status ~= nil and obj.status.recreation or {}
  actions["approve-recreation"] = {["disabled"] = not needsApproval}
  local mayBeAborted = recreation.id ~= nil and recreation.deleteSent ~= true and recreation.phase ~= "GivingBack"
  actions["abort-recreation"] = {["disabled"] = not mayBeAborted}
end
return actions
