//! Good prices for the rows of a programme: the primal-dual hybrid gradient method (Chambolle and
//! Pock, 2011) with a step for each row and share (Pock and Chambolle, 2011), restarts and a balance of steps as in
//! PDLP (Applegate et al., 2021). Steps are reflected, and go part of the way back to where they began (Lu and Yang,
//! "Restarted Halpern PDHG for Linear Programming", 2024), so that no averages are needed.

use super::programme::{Programme, Store};

/// So many iterations pass between two looks at how good prices are.
const LOOK: usize = 20;

/// Prices are good enough at this part of the bound.
const CLOSE: f64 = 1e-5;

/// It is given up when as many looks as one has patience for have raised the bound by less than
/// this part of it.
const RAISED: f64 = 1e-4;

/// It begins again from where it is when a step is this part of the first one, or no less than before and that part.
const SHORT: f64 = 0.2;
const SHORTER: f64 = 0.8;

/// Shares and prices, those of stores for a unit of each.
#[derive(Debug, Clone)]
pub(super) struct Climb {
    pub shares: Vec<f64>,
    pub rows: Vec<f64>,
    pub stores: Vec<f64>,
    /// How long steps of shares are, as against those of prices.
    pub balance: f64,
}

impl Climb {
    /// Nothing is known.
    pub fn new(programme: &Programme) -> Self {
        let shares = programme.limits.iter().map(|limits| limits[0]).collect();
        let rows = vec![0.0; programme.rows.len()];
        Self { shares, rows, stores: vec![0.0; programme.stores.len()], balance: 1.0 }
    }

    fn copy_from(&mut self, other: &Self) {
        self.shares.copy_from_slice(&other.shares);
        self.rows.copy_from_slice(&other.rows);
        self.stores.copy_from_slice(&other.stores);
    }
}

/// Steps and what is needed again and again.
struct Steps<'a> {
    programme: &'a Programme<'a>,
    /// By share, by row and by store: the length of a step.
    shares: Vec<f64>,
    rows: Vec<f64>,
    stores: Vec<f64>,
    /// By share: its cost at the present prices, and what it was with its last step once more.
    cost: Vec<f64>,
    ahead: Vec<f64>,
}

impl<'a> Steps<'a> {
    fn new(programme: &'a Programme<'a>) -> Self {
        let mut taken = vec![0.0; programme.cost.len()];
        for (row, weight) in programme.rows.iter().zip(&programme.weights) {
            row.iter().for_each(|share| taken[*share as usize] += weight);
        }
        let mut stores = Vec::new();
        for store in &programme.stores {
            let (unit, mut sum) = (store.unit as f64, 0.0);
            for (share, takes) in &store.takes {
                taken[*share as usize] += store.weight * takes.abs() as f64 / unit;
                sum += takes.abs() as f64 / unit;
            }
            stores.push(store.weight / f64::max(sum, 1e-12));
        }
        Self {
            programme,
            shares: taken.into_iter().map(|taken| 1.0 / f64::max(taken, 1e-12)).collect(),
            rows: programme.weights.iter().map(|weight| weight / 3.0).collect(),
            stores,
            cost: vec![0.0; programme.cost.len()],
            ahead: vec![0.0; programme.cost.len()],
        }
    }

    /// What each share costs at some prices.
    fn find_costs(&mut self, at: &Climb) {
        let programme = self.programme;
        self.cost.iter_mut().zip(&programme.cost).for_each(|(cost, own)| *cost = *own as f64);
        for (row, price) in programme.rows.iter().zip(&at.rows) {
            self.cost[row[0] as usize] += price;
            self.cost[row[1] as usize] -= price;
            self.cost[row[2] as usize] -= price;
        }
        for (store, price) in programme.stores.iter().zip(&at.stores) {
            let unit = store.unit as f64;
            for (share, takes) in &store.takes {
                self.cost[*share as usize] += price * *takes as f64 / unit;
            }
        }
    }

    /// A step from some shares and prices, twice as far as it goes, and by a part of the way back to where these began.
    /// Costs are those at the prices, before and after.
    fn step(&mut self, at: &mut Climb, begin: &Climb, back: f64) {
        let (programme, balance) = (self.programme, at.balance);
        let go_on = 1.0 - back;
        let shares = at.shares.iter_mut().zip(&begin.shares).zip(&programme.limits);
        let steps =
            self.shares.iter().zip(&mut self.ahead).zip(&mut self.cost).zip(&programme.cost);
        for (((share, begin), [least, most]), (((step, ahead), cost), own)) in shares.zip(steps) {
            let next = (*share - balance * step * *cost).clamp(*least, *most);
            *ahead = 2.0 * next - *share;
            *share = go_on * *ahead + back * begin;
            *cost = *own as f64;
        }
        let rows = programme.rows.iter().zip(&mut at.rows).zip(&begin.rows).zip(&self.rows);
        for (((row, price), begin), step) in rows {
            let [wanted, one, other] = row.map(|share| share as usize);
            let lacks = self.ahead[wanted] - self.ahead[one] - self.ahead[other];
            let next = (*price + step / balance * lacks).max(0.0);
            *price = go_on * (2.0 * next - *price) + back * begin;
            self.cost[wanted] += *price;
            self.cost[one] -= *price;
            self.cost[other] -= *price;
        }
        let stores = programme.stores.iter().zip(&mut at.stores).zip(&begin.stores);
        for (((store, price), begin), step) in stores.zip(&self.stores) {
            let next = (*price + step / balance * lacks_of(store, &self.ahead)).max(0.0);
            *price = go_on * (2.0 * next - *price) + back * begin;
            let unit = store.unit as f64;
            for (share, takes) in &store.takes {
                self.cost[*share as usize] += *price * *takes as f64 / unit;
            }
        }
    }

    /// Where one step leads to, and how far that is, as steps measure it. Costs are those at the prices.
    fn next(&mut self, at: &Climb, next: &mut Climb) -> f64 {
        let (programme, balance) = (self.programme, at.balance);
        next.balance = balance;
        let mut apart = 0.0;
        for (id, share) in at.shares.iter().enumerate() {
            let [least, most] = programme.limits[id];
            let to = (share - balance * self.shares[id] * self.cost[id]).clamp(least, most);
            self.ahead[id] = 2.0 * to - share;
            next.shares[id] = to;
            apart += (to - share) * (to - share) / (balance * self.shares[id]);
        }
        let moved = |id: usize| next.shares[id] - at.shares[id];
        for (row, ids) in programme.rows.iter().enumerate() {
            let [wanted, one, other] = ids.map(|share| share as usize);
            let lacks = self.ahead[wanted] - self.ahead[one] - self.ahead[other];
            let step = self.rows[row] / balance;
            next.rows[row] = (at.rows[row] + step * lacks).max(0.0);
            let by = next.rows[row] - at.rows[row];
            apart += by * by / step - 2.0 * by * (moved(wanted) - moved(one) - moved(other));
        }
        for (id, store) in programme.stores.iter().enumerate() {
            let step = self.stores[id] / balance;
            next.stores[id] = (at.stores[id] + step * lacks_of(store, &self.ahead)).max(0.0);
            let by = next.stores[id] - at.stores[id];
            let takes = store.takes.iter().map(|(share, b)| *b as f64 * moved(*share as usize));
            apart += by * by / step - 2.0 * by * takes.sum::<f64>() / store.unit as f64;
        }
        apart.max(0.0).sqrt()
    }

    /// The bound at some prices, and how far these and the shares are from the best. Leaves the
    /// costs at these prices behind.
    fn judge(&mut self, at: &Climb) -> (f64, f64) {
        self.find_costs(at);
        let programme = self.programme;
        let limits = programme.limits.iter().zip(&self.cost);
        let mut bound: f64 = limits.map(|([a, b], cost)| f64::min(a * cost, b * cost)).sum();
        let mut lacking = 0.0;
        for (row, weight) in programme.rows.iter().zip(&programme.weights) {
            let [wanted, one, other] = row.map(|share| at.shares[share as usize]);
            lacking += weight * (wanted - one - other).max(0.0);
        }
        for (store, price) in programme.stores.iter().zip(&at.stores) {
            lacking += store.weight * lacks_of(store, &at.shares).max(0.0);
            bound -= price * store.room as f64 / store.unit as f64;
        }
        let costs = programme.cost.iter().zip(&at.shares);
        let spent: f64 = costs.map(|(cost, share)| *cost as f64 * share).sum();
        (bound, (spent - bound).abs() + lacking)
    }

    /// How far two are apart, in steps of shares and of prices.
    fn apart(&self, one: &Climb, other: &Climb) -> [f64; 2] {
        let sum = |a: &[f64], b: &[f64], steps: &[f64]| -> f64 {
            a.iter().zip(b).zip(steps).map(|((a, b), step)| (a - b) * (a - b) / step).sum()
        };
        let prices = sum(&one.rows, &other.rows, &self.rows);
        let prices = prices + sum(&one.stores, &other.stores, &self.stores);
        [sum(&one.shares, &other.shares, &self.shares).sqrt(), prices.sqrt()]
    }
}

/// By how many units some shares take more than there is room for.
fn lacks_of(store: &Store, shares: &[f64]) -> f64 {
    let taken = store.takes.iter().map(|(id, bytes)| *bytes as f64 * shares[*id as usize]);
    (taken.sum::<f64>() - store.room as f64) / store.unit as f64
}

/// How far to climb.
#[derive(Clone, Copy)]
pub(super) struct How {
    /// For so many looks the bound need not get better.
    pub patience: usize,
    /// It need not be higher.
    pub enough: f64,
}

impl How {
    pub fn patiently(patience: usize) -> Self {
        Self { patience, enough: f64::INFINITY }
    }
}

/// Raises the bound from where it is, as long as it may go on with the work that is left and
/// something comes of it. Leaves the best prices that it met.
pub(super) fn climb(
    programme: &Programme,
    best: &mut Climb,
    How { patience, enough }: How,
    (work, proceed): (&mut usize, &dyn Fn(usize) -> bool),
) {
    let mut steps = Steps::new(programme);
    let mut highest = steps.judge(best).0;
    let (mut now, mut begin, mut next) = (best.clone(), best.clone(), best.clone());
    let (mut count, mut begun_with, mut last) = (0, f64::INFINITY, f64::INFINITY);
    let mut known = vec![highest; patience];
    for iteration in 1.. {
        if count == 0 {
            begun_with = steps.next(&now, &mut next);
        }
        count += 1;
        steps.step(&mut now, &begin, 1.0 / (count + 1) as f64);
        if iteration % LOOK != 0 {
            continue;
        }
        let apart = steps.next(&now, &mut next);
        let (bound, off) = steps.judge(&next);
        if bound > highest {
            highest = bound;
            best.copy_from(&next);
            best.balance = now.balance;
        }
        let before = std::mem::replace(&mut known[iteration / LOOK % patience], highest);
        let is_idle = iteration > LOOK * patience && highest - before <= RAISED * highest.max(0.0);
        *work = work.saturating_sub(LOOK * programme.size());
        if off < CLOSE * highest || is_idle || highest > enough || !proceed(*work) {
            break;
        }
        let is_stuck =
            apart < SHORTER * begun_with && apart > last || count > iteration / 3 + 5 * LOOK;
        if apart > SHORT * begun_with && !is_stuck {
            last = apart;
            steps.find_costs(&now);
            continue;
        }
        // Begin again from there.
        let [shares, prices] = steps.apart(&next, &begin);
        if shares > 0.0 && prices > 0.0 {
            now.balance = (now.balance * shares / prices).sqrt();
        }
        now.copy_from(&next);
        begin.copy_from(&next);
        (count, last) = (0, f64::INFINITY);
    }
    // Shares are no certificate; the last ones are the nearest to what can be.
    best.shares.copy_from_slice(&next.shares);
}
