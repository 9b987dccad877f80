//! What operators see.

use std::collections::BTreeSet;

use super::*;

#[tokio::test(start_paused = true)]
async fn twenty_thousand_entries_are_read_in_stable_ordered_pages() {
    let world = World::new(UNTIRING).await;
    let shards = Shards::new(world.root.supervisor(), "worker", POLICY).unwrap();
    let key = |id| Key::numbered(Worker::KIND, id);
    for id in 0..20_000 {
        shards.spawn(key(id), None, Worker::default()).unwrap();
    }
    pass(1).await;
    let filter = Filter {
        kind: Some("worker".to_owned()),
        ..Filter::default()
    };
    let (mut seen, mut next, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = world.node.page(&filter, next.as_ref(), 1_000);
        assert!(page.rows.len() <= 1_000);
        seen.extend(page.rows.into_iter().map(|row| row.key));
        pages += 1;
        // Odd ones go and others come while it is read.
        let odd = key(20_000 - 2 * pages + 1);
        shards.stop_and_wait(&odd, SOON).await.unwrap();
        shards
            .spawn(key(100_000 - pages), None, Worker::default())
            .unwrap();
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert!(seen.is_sorted(), "in the order of the keys");
    assert!(pages < 60, "{pages} pages");
    let distinct: BTreeSet<&Key> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "nothing twice");
    assert!(
        (0..20_000).step_by(2).all(|id| distinct.contains(&key(id))),
        "nothing missed"
    );
}

#[tokio::test(start_paused = true)]
async fn filters_narrow_and_the_tree_folds_large_families() {
    let world = World::new(UNTIRING).await;
    let shards = Shards::new(world.root.supervisor(), "worker", POLICY).unwrap();
    let parent = Key::new("service", "web");
    for id in 0..30 {
        let worker = Worker::default();
        worker.0.fails.store(id == 7, SeqCst);
        let logical = (id % 2 == 1).then(|| parent.clone());
        shards
            .spawn(Key::numbered(Worker::KIND, id), logical, worker)
            .unwrap();
    }
    pass(20_000).await;
    let ids = |filter: &Filter| -> Vec<String> {
        let rows = world.node.page(filter, None, 100).rows;
        rows.iter().map(|row| row.key.id().to_owned()).collect()
    };
    let sick = Filter {
        phase: Some(Phase::Quarantined),
        ..Filter::default()
    };
    assert_eq!(ids(&sick), ["7"]);
    let prefix = Filter {
        kind: Some("worker".to_owned()),
        id_prefix: Some("2".to_owned()),
        parent: Some("service/web".to_owned()),
        ..Filter::default()
    };
    assert_eq!(ids(&prefix), ["21", "23", "25", "27", "29"]);

    let tree = world.node.tree(100).await;
    let web = tree
        .families
        .iter()
        .find(|family| family.parent == Some(parent.clone()))
        .unwrap();
    assert_eq!(
        (web.kind, web.count, web.restarts, web.first.len()),
        ("worker", 15, 5, 15)
    );
    assert_eq!(
        web.phases[&Phase::Running] + web.phases[&Phase::Quarantined],
        15
    );
    assert_eq!(tree.left_out, 0);
    let total: u64 = tree.families.iter().map(|family| family.count).sum();
    assert_eq!(total, world.node.actors() as u64);
    let narrow = world.node.tree(1).await;
    assert_eq!(
        (narrow.families.len(), narrow.left_out),
        (1, total - narrow.families[0].count)
    );
}

#[tokio::test(start_paused = true)]
async fn an_entity_answers_with_its_view_or_is_late_with_its_last_words() {
    let world = World::new(UNTIRING).await;
    let (address, control) = world.worker("1", POLICY).await;
    let inspect = |text| world.node.inspect(text, Duration::from_secs(2));
    address.cast(Tell::Add(41)).unwrap();
    let alive = inspect("worker/1").await.unwrap();
    assert_eq!(alive.answer, Answer::Alive(View::of(&41)));
    assert_eq!((alive.row.handled, alive.row.stuck_ms), (1, None));

    address.cast(Tell::Hold(Duration::from_secs(10))).unwrap();
    let late = inspect("worker/1").await.unwrap();
    assert_eq!(late.answer, Answer::Late(Some(View::of(&41))));
    assert!(late.row.stuck_ms.is_some());

    address.cast(Tell::Add(625)).unwrap();
    pass(9_000).await;
    let failed = inspect("worker/1").await.unwrap();
    assert_eq!(failed.answer, Answer::Alive(View::failed()));
    assert_eq!(control.starts(), 1, "a view that panics hurts nobody");

    control.fails.store(true, SeqCst);
    address.cast(Tell::Fail).unwrap();
    pass(20_000).await;
    let down = inspect("worker/1").await.unwrap();
    assert!(matches!(down.answer, Answer::Down(Some(_))), "{down:?}");
    assert_eq!(down.row.phase, Phase::Quarantined);

    assert_eq!(
        inspect("worker/2").await.unwrap_err().code(),
        "actor-unknown"
    );
    let long = "x".repeat(10_000);
    let refusal = inspect(&long).await.unwrap_err();
    assert!(refusal.to_string().len() < 400);
    let top = inspect("root").await.unwrap();
    assert_eq!(
        top.answer,
        Answer::Alive(View::of(&serde_json::json!({"children":1,"live":0})))
    );
}

#[test]
fn a_view_is_bounded() {
    assert_eq!(
        View::of(&"x".repeat(VIEW_BYTES_MAX)).as_json(),
        r#"{"view_error":"too long"}"#
    );
    assert_eq!(View::of(&[1, 2]).as_json(), "[1,2]");
}
