//! Keys, delays, clocks and timers.

use proptest::prelude::*;

use super::*;
use crate::backoff::{Crashes, Storm, Verdict};

#[test]
fn keys_are_ordered_as_people_read_them() {
    let mut keys = ["job/10", "job/9", "job/x1", "host/w2", "wal", "job/812"].map(|text| {
        let (kind, id) = Key::split(text);
        let kind = ["job", "host", "wal"]
            .into_iter()
            .find(|known| *known == kind)
            .unwrap();
        Key::new(kind, id)
    });
    keys.sort();
    let texts: Vec<String> = keys.iter().map(Key::to_string).collect();
    assert_eq!(
        texts,
        ["host/w2", "job/9", "job/10", "job/812", "job/x1", "wal"]
    );
}

proptest! {
    #[test]
    fn delays_stay_within_half_and_all_of_the_doubled_ceiling(random: u64, crashes in 1_u32..20) {
        let shape = backoff::Backoff { crashes_max: 100, ..Policy::ENTITY.backoff };
        let mut history = Crashes::default();
        let mut verdict = Verdict::SetAside;
        for _ in 0..crashes {
            verdict = history.crashed(&shape, Duration::ZERO, random);
        }
        let Verdict::Again(delay) = verdict else { panic!("set aside") };
        if crashes == 1 {
            prop_assert_eq!(delay, Duration::ZERO);
        } else {
            let ceiling = (shape.first * 2_u32.pow(crashes - 2)).min(shape.longest);
            prop_assert!(delay >= ceiling / 2 && delay <= ceiling);
        }
    }

    #[test]
    fn only_crashes_within_the_window_count(gaps in prop::collection::vec(0_u64..30_000, 1..60)) {
        let shape = Policy::ENTITY.backoff;
        let mut history = Crashes::default();
        let mut moments: Vec<u64> = Vec::new();
        let mut now = 0;
        for gap in gaps {
            now += gap;
            moments.push(now);
            let verdict = history.crashed(&shape, Duration::from_millis(now), 0);
            let recent = moments.iter().filter(|moment| now - **moment <= 60_000).count();
            prop_assert_eq!(verdict == Verdict::SetAside, recent >= 8);
        }
    }

    #[test]
    fn keys_compare_as_a_total_order(ids in prop::collection::vec("[0-9a]{0,3}", 3)) {
        let keys: Vec<Key> = ids.iter().map(|id| Key::new("k", id.as_str())).collect();
        let (a, b, c) = (&keys[0], &keys[1], &keys[2]);
        prop_assert_eq!(a.cmp(b), b.cmp(a).reverse());
        prop_assert_eq!(a == b, a.cmp(b).is_eq());
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
    }
}

#[test]
fn a_storm_is_more_than_its_number_within_its_window() {
    let mut storm = Storm::default();
    let second = Duration::from_secs(1);
    let calm: Vec<bool> = (0..10)
        .map(|at| storm.count(second * at, 3, second * 2))
        .collect();
    assert_eq!(calm, [false; 10]);
    let wild: Vec<bool> = (0..5)
        .map(|_| storm.count(second * 20, 3, second * 2))
        .collect();
    assert_eq!(wild, [false, false, false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_timer_triggers_once_and_only_for_its_last_arming() {
    struct Alarm;
    struct Bell {
        timer: Timer<Ring>,
        rung: Vec<u64>,
    }
    enum Ring {
        Arm(u64),
        Disarm,
        Due(Trigger),
        Rung(Reply<Vec<u64>>),
    }
    impl Entity for Alarm {
        type Message = Ring;
        type State = Bell;
        const KIND: &'static str = "alarm";
        async fn recover(&self, context: &Context<Ring>) -> Result<Bell, Crash> {
            let timer = Timer::new(context.address().clone(), context.clock().clone());
            Ok(Bell {
                timer,
                rung: Vec::new(),
            })
        }
        async fn handle(
            &self,
            context: &Context<Ring>,
            message: Ring,
            bell: &mut Bell,
        ) -> Result<(), Crash> {
            match message {
                Ring::Arm(at_ms) => bell.timer.arm(at_ms, Ring::Due),
                Ring::Disarm => bell.timer.disarm(),
                Ring::Due(trigger) if bell.timer.accept(trigger) => {
                    bell.rung.push(context.clock().monotonic_ms());
                }
                Ring::Due(_stale) => {}
                Ring::Rung(reply) => reply.send(bell.rung.clone()),
            }
            Ok(())
        }
    }
    let clock = Arc::new(ManualClock::new(1_000, 500));
    let node = Node::new(clock.clone(), 1);
    let root = Root::start(&node, UNTIRING).await.unwrap();
    let key = Key::single("alarm");
    let address = root
        .supervisor()
        .spawn_started(key, None, Alarm, POLICY, SOON)
        .await
        .unwrap();
    let to = async |now_ms: u64| {
        pass(1).await;
        clock.advance(Duration::from_millis(now_ms - clock.monotonic_ms()));
        pass(1).await;
        address.call(Ring::Rung, SOON).await.unwrap()
    };
    address.cast(Ring::Arm(1_100)).unwrap();
    address.cast(Ring::Arm(1_200)).unwrap();
    assert_eq!(to(1_199).await, [0; 0]);
    assert_eq!(to(1_200).await, [1_200]);
    assert_eq!(to(1_300).await, [1_200]);
    address.cast(Ring::Arm(1_400)).unwrap();
    address.cast(Ring::Disarm).unwrap();
    assert_eq!(to(1_500).await, [1_200]);
    address.cast(Ring::Arm(1_000)).unwrap();
    assert_eq!(to(1_500).await, [1_200, 1_500]);
    assert_eq!(clock.wall_ms(), 2_000);
}

#[test]
fn the_real_clock_goes_forward() {
    let (first, second) = (RealClock.monotonic_ns(), RealClock.monotonic_ns());
    assert!(first > 0 && second >= first);
    assert!(RealClock.wall_ms() > 1_600_000_000_000);
}
