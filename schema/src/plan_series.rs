//! Plans for one training, epoch range by epoch range.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Document;
use crate::file::{Malformed, malformed};
use crate::plan::Plan;

/// Plans for the epochs of one training, each for a range of them: methods that decide anew as
/// values change (such as CSWAP+, with the share of zeros) leave one plan for each range in which
/// they decide alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanSeries {
    /// The plans by ascending epoch, without a gap between their ranges.
    pub plans: Vec<EpochPlan>,
}

/// The plan of a range of epochs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EpochPlan {
    /// The first epoch, counted from 0.
    pub first_epoch: u32,
    /// The last epoch, that one included.
    pub last_epoch: u32,
    /// The plan, made for what the first epoch's values are.
    pub plan: Plan,
}

impl PlanSeries {
    /// The plan of an epoch, if the series reaches that far.
    pub fn at(&self, epoch: u32) -> Option<&Plan> {
        let range = self.plans.iter().find(|range| epoch <= range.last_epoch)?;
        (range.first_epoch <= epoch).then_some(&range.plan)
    }
}

impl Document for PlanSeries {
    const FORMAT: &'static str = "tidegate/plan-series";
    const VERSION: u32 = 1;

    fn check(&self) -> Result<(), Malformed> {
        if self.plans.is_empty() {
            return malformed("there is no plan: make at least one");
        }
        let mut before: Option<u32> = None;
        for (index, EpochPlan { first_epoch, last_epoch, plan }) in self.plans.iter().enumerate() {
            let (first, last) = (*first_epoch, *last_epoch);
            if last < first {
                return malformed(format!(
                    "plans[{index}] is for epochs {first} to {last}, which ends before it begins"
                ));
            }
            if let Some(last) = before.filter(|last| last.checked_add(1) != Some(first)) {
                return malformed(format!(
                    "plans[{index}] begins with epoch {first}; the plan before it ends with epoch \
                     {last}"
                ));
            }
            before = Some(last);
            plan.check().map_err(|Malformed(what)| Malformed(format!("plans[{index}]: {what}")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn plan() -> Plan {
        let text = include_str!("../tests/gallery/plan-v1.json");
        let plan = Plan::from_json(text, Path::new("plan.json")).expect("well formed");
        Plan { method: "cswap".into(), ..plan }
    }

    fn series(ranges: &[(u32, u32)]) -> PlanSeries {
        let of = |&(first_epoch, last_epoch): &(u32, u32)| EpochPlan {
            first_epoch,
            last_epoch,
            plan: plan(),
        };
        PlanSeries { plans: ranges.iter().map(of).collect() }
    }

    #[test]
    fn each_epoch_has_the_plan_of_its_range() {
        let mut series = series(&[(5, 5), (6, 9)]);
        series.plans[1].plan.method = "second".into();
        let method = |epoch| series.at(epoch).map(|plan| plan.method.as_str());
        assert_eq!(
            [4, 5, 6, 9, 10].map(method),
            [None, Some("cswap"), Some("second"), Some("second"), None]
        );
    }

    #[test]
    fn a_series_comes_back_from_its_file_as_it_was() {
        let series = series(&[(0, 3), (4, 90)]);
        let back = PlanSeries::from_json(&series.to_json(), Path::new("series.json"));
        assert_eq!(back.expect("well formed"), series);
    }

    #[test]
    fn what_is_not_well_formed_is_refused_by_name() {
        let mut report = String::new();
        let mut broken = series(&[(0, 0), (1, 1)]);
        broken.plans[1].plan.both_directions_permille = 0;
        let cases = [
            series(&[]),
            series(&[(3, 2)]),
            series(&[(0, 2), (4, 5)]),
            series(&[(0, 2), (2, 5)]),
            series(&[(0, u32::MAX), (0, 1)]),
            broken,
        ];
        for case in cases {
            report += &format!("{}\n", case.check().expect_err("not well formed"));
        }
        insta::assert_snapshot!(report);
    }
}
