-- The limits were judged where their sets are, before this step; whether they apply is known here.
if refuse ~= '' and quiet ~= '1' and (not busy or refuse == 'caller_tasks') and not (refuse == 'caller_tasks' and named == '1') then
  return {refuse}
end
