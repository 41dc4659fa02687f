//! The rules that hold for every plan, over random chunks and stripes, and plans with planted
//! bugs that break them.

use super::*;

/// Carries decisions out on a layout of its own and checks each against the rules.
struct Referee {
    geometry: Geometry,
    present: StoreMask,
    limits: Limits,
    chunks: HashMap<ChunkId, Entry>,
    stripes: BTreeMap<StripeId, StoreMask>,
    bytes_total: u64,
    load_total: u128,
    next: u64,
}

impl Referee {
    fn new(scene: &Scene) -> Referee {
        let list = scene.list();
        Referee {
            geometry: scene.geometry,
            present: scene.present,
            limits: scene.limits,
            chunks: list
                .entries
                .iter()
                .map(|entry| (entry.chunk(), *entry))
                .collect(),
            stripes: scene.stripes.clone(),
            bytes_total: list.bytes_total,
            load_total: list.load_total,
            next: 1 + scene.stripes.keys().map(|id| id.0.get()).max().unwrap_or(0),
        }
    }

    fn load(&self) -> u128 {
        let encoded = self.chunks.values().filter(|entry| entry.stripe.is_some());
        encoded.map(|entry| u128::from(entry.load.0)).sum()
    }

    fn bytes(&self) -> u128 {
        let encoded = self.chunks.values().filter(|entry| entry.stripe.is_some());
        encoded.count() as u128 * u128::from(MIB)
    }

    fn set(
        &mut self,
        member: Member,
        from: Option<StripeId>,
        to: Option<StripeId>,
    ) -> Result<(), String> {
        let entry = self
            .chunks
            .get_mut(&member.chunk)
            .ok_or("an unknown chunk")?;
        if entry.stripe != from {
            return Err(format!("{member:?} is in {:?}, not {from:?}", entry.stripe));
        }
        if entry.home != member.home {
            return Err(format!("{member:?} is at home on {:?}", entry.home));
        }
        entry.stripe = to;
        Ok(())
    }

    fn carry_out(&mut self, decision: &Decision) -> Result<(), String> {
        let before = self.load();
        match decision {
            Decision::Encode { members, parity } => {
                let id = stripe(self.next);
                self.next += 1;
                self.stripes.insert(id, *parity);
                if members.len() != self.geometry.data() {
                    return Err(format!("a stripe of {} members", members.len()));
                }
                for member in members {
                    self.set(*member, None, Some(id))?;
                }
                self.added(before)?;
            }
            Decision::Swap {
                stripe,
                leaves,
                joins,
            } => {
                self.set(*leaves, Some(*stripe), None)?;
                self.set(*joins, None, Some(*stripe))?;
                if self.load() >= before {
                    return Err("a swap that does not lower the load".to_owned());
                }
            }
            Decision::Fill { stripe, joins } => {
                self.set(*joins, None, Some(*stripe))?;
                self.added(before)?;
            }
            Decision::Return { stripe, leaves } => self.set(*leaves, Some(*stripe), None)?,
        }
        self.stripes_are_safe()
    }

    /// What encodes more keeps both limits.
    fn added(&self, before: u128) -> Result<(), String> {
        if !self
            .limits
            .encoded
            .holds(self.bytes(), self.bytes_total.into())
        {
            return Err("the encoded share is above R".to_owned());
        }
        let load = self.load();
        let limit = self.limits.load;
        let below = limit == Share::ALL || limit.exceeds(load, self.load_total);
        if load != before && !below {
            return Err("the load share is not below L".to_owned());
        }
        Ok(())
    }

    /// Every stripe has its shards on distinct stores.
    fn stripes_are_safe(&self) -> Result<(), String> {
        let mut taken = self.stripes.clone();
        for entry in self.chunks.values() {
            let Some(id) = entry.stripe else { continue };
            let stores = taken.get_mut(&id).ok_or("a stripe without parity")?;
            if stores.has(entry.home) {
                return Err(format!("two shards of {id:?} are on {:?}", entry.home));
            }
            *stores = stores.with(entry.home);
        }
        let parity = |mask: &StoreMask| mask.count() == self.geometry.parity();
        if !self.stripes.values().all(parity) {
            return Err("a stripe with too little parity".to_owned());
        }
        Ok(())
    }

    /// What holds when the plan has nothing left to do and every store is there.
    fn settled(&self) -> Result<(), String> {
        if !self.limits.load.holds(self.load(), self.load_total) {
            return Err("the load share is above L".to_owned());
        }
        if !self
            .limits
            .encoded
            .holds(self.bytes(), self.bytes_total.into())
        {
            return Err("the encoded share is above R".to_owned());
        }
        let mut members: BTreeMap<StripeId, u8> = BTreeMap::new();
        for entry in self.chunks.values() {
            *members
                .entry(entry.stripe.unwrap_or(stripe(u64::MAX)))
                .or_default() += 1;
        }
        members.remove(&stripe(u64::MAX));
        if members.values().any(|count| !self.geometry.frees(*count)) {
            return Err("a stripe frees nothing".to_owned());
        }
        for home in self.present.iter() {
            let of = |encoded: bool| {
                let here = self.chunks.values().filter(move |entry| entry.home == home);
                here.filter(move |entry| entry.stripe.is_some() == encoded)
                    .map(|entry| entry.load)
            };
            if let (Some(warmest), Some(coldest)) = (of(true).max(), of(false).min())
                && warmest > coldest
            {
                return Err(format!(
                    "on {home:?} {warmest:?} is encoded and {coldest:?} is not"
                ));
            }
        }
        self.nothing_left()
    }

    /// No further stripe of the coldest chunks fits.
    fn nothing_left(&self) -> Result<(), String> {
        let mut heads: Vec<u128> = Vec::new();
        for home in self.present.iter() {
            let here = self.chunks.values();
            let free = here.filter(|entry| entry.home == home && entry.stripe.is_none());
            heads.extend(free.map(|entry| u128::from(entry.load.0)).min());
        }
        heads.sort_unstable();
        let Some(coldest) = heads.get(..self.geometry.data()) else {
            return Ok(());
        };
        let more: u128 = coldest.iter().sum();
        let bytes = self.bytes() + coldest.len() as u128 * u128::from(MIB);
        let load = self.load() + more;
        let cold = more == 0 || self.limits.load == Share::ALL;
        let fits = self.limits.encoded.holds(bytes, self.bytes_total.into())
            && (cold || self.limits.load.exceeds(load, self.load_total));
        if fits {
            return Err("another stripe would fit".to_owned());
        }
        Ok(())
    }
}

/// What a plan is made for.
#[derive(Clone, Debug)]
struct Scene {
    geometry: Geometry,
    present: StoreMask,
    limits: Limits,
    chunks: Vec<(u8, u64, u64)>,
    stripes: BTreeMap<StripeId, StoreMask>,
}

impl Scene {
    fn list(&self) -> ChunkList {
        let mut list = list(&self.chunks);
        // Something that cannot be encoded is part of both wholes.
        list.bytes_total += MIB / 2;
        list.load_total += 3;
        list
    }

    fn plan(&self) -> Plan {
        let list = self.list();
        Plan::new(
            list,
            &self.stripes,
            self.geometry,
            self.present,
            self.limits,
        )
    }

    /// Carries a plan out; the first broken rule is the error.
    fn judge(&self, plan: impl Iterator<Item = Decision>) -> Result<u64, String> {
        let mut referee = Referee::new(self);
        let mut count = 0;
        for decision in plan {
            count += 1;
            if count > 10 * self.chunks.len() as u64 {
                return Err("the plan has no end".to_owned());
            }
            let before = words(&decision);
            referee
                .carry_out(&decision)
                .map_err(|why| format!("{before}: {why}"))?;
        }
        if self.present.count() == self.geometry.stores() {
            referee.settled()?;
        }
        Ok(count)
    }
}

/// Random chunks, some of them in stripes that are legal but for vacant places.
fn scene() -> impl Strategy<Value = Scene> {
    let geometries = prop_oneof![
        Just((2, 1, 2, 3)),
        Just((2, 1, 2, 5)),
        Just((4, 2, 3, 6)),
        Just((3, 2, 2, 8)),
    ];
    let chunk = (
        0..8u8,
        prop_oneof![3 => Just(0u64), 4 => 0..10u64, 1 => 0..10_000u64],
        0..4u64,
    );
    let shares = (
        prop_oneof![Just(0u32), Just(100_000), Just(1_000_000), 0..=1_000_000u32],
        0..=1_000_000u32,
    );
    (
        geometries,
        prop::collection::vec(chunk, 0..60),
        shares,
        any::<bool>(),
    )
        .prop_map(
            |((data, parity, copies, stores), chunks, (load, encoded), all)| {
                let geometry = Geometry::new(data, parity, copies, stores).expect("a geometry");
                let mut scene = Scene {
                    geometry,
                    present: StoreMask::first(usize::from(stores) - usize::from(!all)),
                    limits: limits(f64::from(load) / 1e6, f64::from(encoded) / 1e6),
                    chunks,
                    stripes: BTreeMap::new(),
                };
                lay_out(&mut scene);
                scene
            },
        )
}

/// Puts chunks that asked for it into stripes, as their homes allow.
fn lay_out(scene: &mut Scene) {
    let stores = scene.geometry.stores();
    let mut open: Vec<(StripeId, StoreMask, usize)> = Vec::new();
    for (home, _, wish) in &mut scene.chunks {
        *home %= stores as u8;
        if std::mem::take(wish) == 0 {
            continue;
        }
        let home = StoreIndex(*home);
        let place = open
            .iter_mut()
            .find(|(_, taken, members)| *members < scene.geometry.data() && !taken.has(home));
        let (id, taken, members) = match place {
            Some(place) => place,
            None => {
                let id = stripe(1 + open.len() as u64);
                let others = StoreMask::first(stores).without(home).iter();
                let first = others.skip(open.len() % (stores - scene.geometry.parity()));
                let parity = first
                    .take(scene.geometry.parity())
                    .fold(StoreMask::default(), StoreMask::with);
                scene.stripes.insert(id, parity);
                open.push((id, parity, 0));
                open.last_mut().expect("just pushed")
            }
        };
        *taken = taken.with(home);
        *members += 1;
        *wish = id.0.get();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_plan_keeps_every_rule(scene in scene()) {
        if let Err(why) = scene.judge(scene.plan()) {
            return Err(TestCaseError::fail(why));
        }
    }

    /// It may be left off anywhere: the rest of the work is found again.
    #[test]
    fn a_plan_over_what_a_plan_left_has_nothing_to_do(scene in scene()) {
        let mut referee = Referee::new(&scene);
        for decision in scene.plan() {
            referee.carry_out(&decision).map_err(TestCaseError::fail)?;
        }
        let mut after = scene.clone();
        after.chunks = (0..after.chunks.len() as u32)
            .map(|number| {
                let entry = referee.chunks[&chunk(number)];
                (entry.home.0, entry.load.0, entry.stripe.map_or(0, |id| id.0.get()))
            })
            .collect();
        after.stripes = referee.stripes.clone();
        let again: Vec<String> = after.plan().map(|decision| words(&decision)).collect();
        prop_assert!(again.is_empty(), "{again:?}");
    }
}

/// A scene in which each rule matters.
fn busy() -> Scene {
    let mut chunks = Vec::new();
    for number in 0..30u64 {
        chunks.push(((number % 3) as u8, number * number, 0));
    }
    Scene {
        geometry: three_stores(),
        present: StoreMask::first(3),
        limits: limits(0.1, 0.5),
        chunks,
        stripes: BTreeMap::new(),
    }
}

#[test]
fn canary_a_plan_that_takes_the_warmest_first_is_seen() {
    let scene = busy();
    scene
        .judge(scene.plan())
        .expect("the real plan keeps the rules");
    let mut upside_down = scene.clone();
    for (_, load, _) in &mut upside_down.chunks {
        *load = 10_000 - *load;
    }
    upside_down.limits = limits(1.0, 0.5);
    let why = scene.judge(upside_down.plan()).unwrap_err();
    assert!(why.contains("not below L"), "{why}");
    let mut unlimited = scene.clone();
    unlimited.limits = limits(1.0, 0.5);
    let why = unlimited.judge(upside_down.plan()).unwrap_err();
    assert!(why.contains("is encoded and"), "{why}");
}

#[test]
fn canary_plans_that_do_not_know_a_limit_are_seen() {
    let complaint = |kept: Limits, known: Limits| {
        let mut scene = busy();
        scene.limits = known;
        let plan = scene.plan();
        scene.limits = kept;
        scene.judge(plan).unwrap_err()
    };
    let why = complaint(limits(0.1, 1.0), limits(1.0, 1.0));
    assert!(why.contains("not below L"), "{why}");
    let why = complaint(limits(1.0, 0.3), limits(1.0, 0.5));
    assert!(why.contains("above R"), "{why}");
}

#[test]
fn canary_plans_with_two_shards_on_a_store_are_seen() {
    let scene = busy();
    let same_home = scene.plan().map(|mut decision| {
        if let Decision::Encode { parity, members } = &mut decision {
            *parity = StoreMask::only(members[0].home);
        }
        decision
    });
    let why = scene.judge(same_home).unwrap_err();
    assert!(why.contains("two shards"), "{why}");
}

#[test]
fn canary_a_plan_that_stops_early_is_seen() {
    let scene = busy();
    let count = scene
        .judge(scene.plan())
        .expect("the real plan keeps the rules");
    let why = scene
        .judge(scene.plan().take(count as usize - 1))
        .unwrap_err();
    assert!(why.contains("another stripe would fit"), "{why}");
}
