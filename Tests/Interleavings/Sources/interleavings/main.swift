import Explorer

Runner.main(
    C1.scenarios + C5.scenarios + C7.scenarios + C9.scenarios + C11.scenarios + FamilyViews.scenarios
        + Storage.scenarios + Commands.scenarios + Histories.scenarios + Family.scenarios + Random.scenarios
        + Replicas.scenarios + RandomEvents.scenarios + RandomReplicas.scenarios + RandomFamilies.scenarios)
